// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel headers compile at run time too: NVRTC gets every row of the table, with no header but
// ours, and makes PTX of it, as the library's build does for ptxas. That keeps the door open for
// score and mask functions that users write.
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <string>

#include "cuda/config_table.h"

namespace volley::cuda {
namespace {

std::string source_of(int row) {
  const std::string config = "fwd_config(" + std::to_string(row) + ")";
  return "#include \"cuda/config_table.h\"\n#include \"cuda/sm90/forward.cuh\"\n"
         "using namespace volley::cuda;\n"
         "__global__ void __launch_bounds__(threads(" +
         config +
         "), 1)\n"
         "    kernel(const __grid_constant__ FwdParams p) { forward<" +
         config + ">(p); }\n";
}

class Nvrtc : public testing::TestWithParam<int> {};

TEST_P(Nvrtc, CompilesTheRow) {
  const std::string source = source_of(GetParam());
  nvrtcProgram program = nullptr;
  ASSERT_EQ(nvrtcCreateProgram(&program, source.c_str(), "row.cu", 0, nullptr, nullptr),
            NVRTC_SUCCESS);
  const char* options[] = {"-std=c++20", "-arch=compute_90a", "-default-device",
                           "-I" VOLLEY_SOURCE_DIR};
  const nvrtcResult result = nvrtcCompileProgram(program, std::size(options), options);
  size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  nvrtcGetProgramLog(program, log.data());
  EXPECT_EQ(result, NVRTC_SUCCESS) << log;
  nvrtcGetPTXSize(program, &size);
  std::string ptx(size, '\0');
  nvrtcGetPTX(program, ptx.data());
  EXPECT_NE(ptx.find("wgmma.mma_async"), std::string::npos);
  nvrtcDestroyProgram(&program);
}

INSTANTIATE_TEST_SUITE_P(EveryRow, Nvrtc, testing::Range(0, static_cast<int>(kFwdRows)));

}  // namespace
}  // namespace volley::cuda
