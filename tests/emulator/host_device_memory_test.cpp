// SPDX-License-Identifier: BSD-3-Clause
//
// The emulated GPU's memory: a tensor goes there and comes back whole.
#include <gtest/gtest.h>

#include "device_memory.h"

namespace volley::check {
namespace {

TEST(HostDeviceMemory, IsThere) {
  std::string why = "before";
  EXPECT_TRUE(gpu_available(&why));
  EXPECT_EQ(why, "");
  EXPECT_EQ(gpu_synchronize(), "");
}

TEST(HostDeviceMemory, CopiesKeepWhatAViewSays) {
  HostTensor host(VOLLEY_BF16, {4, 6}, {16, 2}, 3);
  host.fill(1.5);
  const DeviceCopy copy(host);
  ASSERT_NE(copy.view(), nullptr);
  EXPECT_EQ(copy.view()->device_type, VOLLEY_DEVICE_CPU);
  EXPECT_EQ(copy.view()->stride[0], 16);
  EXPECT_NE(copy.data(), host.data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copy.data()) % 256, 6);
  host.poison();
  ASSERT_TRUE(copy.download(&host));
  EXPECT_EQ(host.at({3, 5}), 1.5);
  EXPECT_TRUE(host.untouched_outside());
}

TEST(HostDeviceMemory, CopiesMove) {
  const HostTensor host(VOLLEY_F32, {2});
  DeviceCopy moved;
  EXPECT_EQ(moved.view(), nullptr);
  moved = DeviceCopy(host);
  EXPECT_NE(moved.view(), nullptr);
  const DeviceCopy again(std::move(moved));
  EXPECT_EQ(again.view()->shape[0], 2);
  EXPECT_EQ(DeviceCopy(HostTensor()).view(), nullptr);
}

}  // namespace
}  // namespace volley::check
