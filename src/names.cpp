// SPDX-License-Identifier: BSD-3-Clause
//
// Names of the ABI's codes: what messages, logs and JSON call them.
#include <span>

#include "volley/volley.h"

namespace {

struct Name {
  int32_t code;
  const char* name;
};

constexpr Name kStatuses[] = {
    {VOLLEY_OK, "ok"},
    {VOLLEY_INVALID_ARGUMENT, "invalid_argument"},
    {VOLLEY_NOT_OFFERED, "not_offered"},
    {VOLLEY_NOT_BUILT, "not_built"},
    {VOLLEY_NO_DEVICE, "no_device"},
    {VOLLEY_OUT_OF_MEMORY, "out_of_memory"},
    {VOLLEY_DEVICE_ERROR, "device_error"},
    {VOLLEY_INTERNAL, "internal"},
};

constexpr Name kReasons[] = {
    {VOLLEY_REASON_NONE, "none"},
    {VOLLEY_REASON_NULL, "null"},
    {VOLLEY_REASON_STRUCT, "struct"},
    {VOLLEY_REASON_DTYPE, "dtype"},
    {VOLLEY_REASON_SHAPE, "shape"},
    {VOLLEY_REASON_STRIDE, "stride"},
    {VOLLEY_REASON_ALIGNMENT, "alignment"},
    {VOLLEY_REASON_OVERLAP, "overlap"},
    {VOLLEY_REASON_DEVICE, "device"},
    {VOLLEY_REASON_WINDOW, "window"},
    {VOLLEY_REASON_RANGE, "range"},
    {VOLLEY_REASON_CONTENTS, "contents"},
    {VOLLEY_REASON_WORKSPACE, "workspace"},
    {VOLLEY_REASON_OPTION, "option"},
    {VOLLEY_REASON_HEAD_DIM, "head_dim"},
    {VOLLEY_REASON_SCALE, "scale"},
    {VOLLEY_REASON_SOFTCAP, "softcap"},
    {VOLLEY_REASON_SINK, "sink"},
    {VOLLEY_REASON_VARLEN, "varlen"},
    {VOLLEY_REASON_USED_LENGTHS, "used_lengths"},
    {VOLLEY_REASON_PAGED, "paged"},
    {VOLLEY_REASON_BIAS, "bias"},
    {VOLLEY_REASON_ALIBI, "alibi"},
    {VOLLEY_REASON_MASK, "mask"},
    {VOLLEY_REASON_DROPOUT, "dropout"},
    {VOLLEY_REASON_DESCALE, "descale"},
    {VOLLEY_REASON_SPLITS, "splits"},
    {VOLLEY_REASON_DETERMINISTIC, "deterministic"},
    {VOLLEY_REASON_BATCH_INVARIANT, "batch_invariant"},
    {VOLLEY_REASON_PRECISION, "precision"},
    {VOLLEY_REASON_ACCURACY, "accuracy"},
    {VOLLEY_REASON_OUTPUT_DTYPE, "output_dtype"},
    {VOLLEY_REASON_ACCUMULATE, "accumulate"},
    {VOLLEY_REASON_HOOK, "hook"},
    {VOLLEY_REASON_BACKWARD, "backward"},
    {VOLLEY_REASON_SIZE, "size"},
    {VOLLEY_REASON_ARCH, "arch"},
    {VOLLEY_REASON_SHARED_MEMORY, "shared_memory"},
    {VOLLEY_REASON_NOT_BUILT, "not_built"},
    {VOLLEY_REASON_NOT_CHOSEN, "not_chosen"},
};

constexpr Name kBackends[] = {
    {VOLLEY_BACKEND_AUTO, "auto"}, {VOLLEY_BACKEND_REFERENCE, "reference"},
    {VOLLEY_BACKEND_CPU, "cpu"},   {VOLLEY_BACKEND_SM80, "sm80"},
    {VOLLEY_BACKEND_SM90, "sm90"},
};

constexpr Name kDtypes[] = {
    {VOLLEY_I32, "i32"},   {VOLLEY_I64, "i64"},   {VOLLEY_BOOL, "bool"},
    {VOLLEY_F16, "fp16"},  {VOLLEY_F32, "fp32"},  {VOLLEY_F64, "fp64"},
    {VOLLEY_BF16, "bf16"}, {VOLLEY_E4M3, "e4m3"}, {VOLLEY_E8M0, "e8m0"},
};

const char* find(std::span<const Name> names, int32_t code) {
  for (const Name& entry : names) {
    if (entry.code == code) return entry.name;
  }
  return "unknown";
}

}  // namespace

const char* volley_status_name(int32_t status) { return find(kStatuses, status); }
const char* volley_reason_name(int32_t reason) { return find(kReasons, reason); }
const char* volley_backend_name(int32_t backend) { return find(kBackends, backend); }
const char* volley_dtype_name(int32_t dtype) { return find(kDtypes, dtype); }
