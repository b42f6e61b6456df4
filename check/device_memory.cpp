// SPDX-License-Identifier: BSD-3-Clause
//
// The seven driver calls that tests need, bound with dlsym. Memory lives in device 0's primary
// context, which is also the one of the CUDA runtime inside the library.
#include "device_memory.h"

#include <dlfcn.h>
#include <utility>

#include "fmt.h"

namespace volley::check {
namespace {

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*synchronize)() = nullptr;
  int (*allocate)(uint64_t*, size_t) = nullptr;
  int (*release)(uint64_t) = nullptr;
  int (*upload)(uint64_t, const void*, size_t) = nullptr;
  int (*download)(void*, uint64_t, size_t) = nullptr;
  int (*error_name)(int, const char**) = nullptr;

  void* context = nullptr;
  std::string problem;  // empty: ready

  std::string name(int code) const {
    const char* text = nullptr;
    if (error_name != nullptr) error_name(code, &text);
    return text != nullptr ? text : fmt::format("CUDA error {}", code);
  }
};

bool bind(void* library, Driver& driver) {
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) driver.problem = fmt::format("libcuda.so.1 has no {}", name);
    return function != nullptr;
  };
  return find(driver.init, "cuInit") && find(driver.device_get, "cuDeviceGet") &&
         find(driver.retain, "cuDevicePrimaryCtxRetain") &&
         find(driver.set_current, "cuCtxSetCurrent") &&
         find(driver.synchronize, "cuCtxSynchronize") && find(driver.allocate, "cuMemAlloc_v2") &&
         find(driver.release, "cuMemFree_v2") && find(driver.upload, "cuMemcpyHtoD_v2") &&
         find(driver.download, "cuMemcpyDtoH_v2") && find(driver.error_name, "cuGetErrorName");
}

Driver make_driver() {
  Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    driver.problem = "no NVIDIA driver here (libcuda.so.1 was not found)";
    return driver;
  }
  if (!bind(library, driver)) return driver;
  int device = 0;
  int code = driver.init(0);
  if (code == 0) code = driver.device_get(&device, 0);
  if (code == 0) code = driver.retain(&driver.context, device);
  if (code != 0) {
    driver.problem = fmt::format("the NVIDIA driver has no usable GPU: {}", driver.name(code));
  }
  return driver;
}

const Driver& driver() {
  static const Driver instance = make_driver();
  return instance;
}

}  // namespace

bool gpu_available(std::string* why) {
  if (why != nullptr) *why = driver().problem;
  return driver().problem.empty();
}

std::string gpu_synchronize() {
  driver().set_current(driver().context);
  const int code = driver().synchronize();
  return code == 0 ? std::string() : driver().name(code);
}

DeviceCopy::DeviceCopy(const HostTensor& host) {
  const std::span<std::byte> storage = host.storage();
  if (!host.present() || driver().set_current(driver().context) != 0) return;
  if (driver().allocate(&memory_, storage.size()) != 0) {
    memory_ = 0;
    return;
  }
  driver().upload(memory_, storage.data(), storage.size());
  tensor_ = *host.view();
  const auto inside = static_cast<std::byte*>(host.data()) - storage.data();
  tensor_.data = reinterpret_cast<void*>(memory_ + static_cast<uint64_t>(inside));
  tensor_.device_type = VOLLEY_DEVICE_CUDA;
}

DeviceCopy::DeviceCopy(DeviceCopy&& other) noexcept
    : memory_(std::exchange(other.memory_, 0)), tensor_(other.tensor_) {}

DeviceCopy& DeviceCopy::operator=(DeviceCopy&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(tensor_, other.tensor_);
  return *this;
}

DeviceCopy::~DeviceCopy() {
  if (memory_ != 0) driver().release(memory_);
}

bool DeviceCopy::download(HostTensor* host) const {
  const std::span<std::byte> storage = host->storage();
  return driver().set_current(driver().context) == 0 &&
         driver().download(storage.data(), memory_, storage.size()) == 0;
}

}  // namespace volley::check
