// SPDX-License-Identifier: BSD-3-Clause
//
// Request: one attention call as a safetensors file asks for it. Its geometry is known from the
// header alone, so that a plan can refuse it before gigabytes are read; load() then reads the data.
// Read measure.h next.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "case.h"
#include "flags.h"
#include "safetensors.h"
#include "volley/volley.h"

namespace volley::cli {

struct Request {
  check::Instance instance;    // options; after load() the tensors, o and lse poisoned
  check::HostTensor o_answer;  // after load(); absent when the file has no o_model
  check::HostTensor lse_answer;
  std::vector<std::string> warnings;

  // Where each input is in the file; NULL: it is not.
  std::array<const StoredTensor*, core::kRoleCount> stored{};
  std::array<volley_tensor, core::kRoleCount> geometry{};  // dtype 0: absent

  void place_on(int32_t device_type);  // host memory, unless told otherwise

  // The options with the geometry, no data. Valid while this lives and stays where it is.
  volley_problem problem() const;
};

// Reads the header's tensors and metadata, and the sequence lengths. Flags beat metadata.
Request read_request(const SafetensorsFile& file, const ScoreFlags& flags);

// Reads the tensors and checks what is in them: lengths, page table, scales.
void load(const SafetensorsFile& file, Request* request);

}  // namespace volley::cli
