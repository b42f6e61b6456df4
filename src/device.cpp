// SPDX-License-Identifier: BSD-3-Clause
//
// The driver is opened with dlopen and asked through its stable C interface, so that this file
// needs no CUDA header and the library loads on any machine.
#include "device.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <mutex>

namespace volley::core {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

// Shared memory and SM counts: the CUDA programming guide's table of compute capabilities and the
// vendor's datasheets; L2 as the driver reports it.
std::vector<Device> make_profiles() {
  const auto gpu = [](const char* name, const char* product, int32_t arch, int32_t sms,
                      int64_t block_kib, int64_t sm_kib, int64_t l2_mib) {
    return Device{name,
                  product,
                  VOLLEY_DEVICE_CUDA,
                  0,
                  false,
                  arch,
                  sms,
                  block_kib * kKiB,
                  sm_kib * kKiB,
                  l2_mib * kMiB,
                  0};
  };
  return {gpu("h200", "NVIDIA H200", 90, 132, 227, 228, 60),
          gpu("h100", "NVIDIA H100 80GB HBM3", 90, 132, 227, 228, 50),
          gpu("a100", "NVIDIA A100-SXM4-80GB", 80, 108, 163, 164, 40),
          gpu("l40s", "NVIDIA L40S", 89, 142, 99, 100, 96)};
}

// The part of the driver interface that is needed here. Every function returns 0 on success.
struct Driver {
  using Init = int (*)(unsigned);
  using GetInt = int (*)(int*);
  using DeviceGet = int (*)(int*, int);
  using DeviceName = int (*)(char*, int, int);
  using Attribute = int (*)(int*, int, int);

  Init init = nullptr;
  GetInt version = nullptr;
  GetInt count = nullptr;
  DeviceGet get = nullptr;
  DeviceName name = nullptr;
  Attribute attribute = nullptr;

  bool complete() const { return init && version && count && get && name && attribute; }
};

// CUdevice_attribute values, fixed by the driver's ABI.
enum Attribute {
  kMultiprocessors = 16,
  kL2Bytes = 38,
  kArchMajor = 75,
  kArchMinor = 76,
  kSmemPerSm = 81,
  kSmemPerBlockOptin = 97
};

Driver open_driver() {
  Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // kept open for good
  if (library == nullptr) return driver;
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
  };
  find(driver.init, "cuInit");
  find(driver.version, "cuDriverGetVersion");
  find(driver.count, "cuDeviceGetCount");
  find(driver.get, "cuDeviceGet");
  find(driver.name, "cuDeviceGetName");
  find(driver.attribute, "cuDeviceGetAttribute");
  return driver;
}

bool read_gpu(const Driver& driver, int32_t id, Device* out) {
  int handle = 0;
  char product[128] = {};
  if (driver.get(&handle, id) != 0 || driver.name(product, sizeof product - 1, handle) != 0) {
    return false;
  }
  bool complete = true;
  const auto read = [&](Attribute attribute) {
    int value = 0;
    complete = driver.attribute(&value, attribute, handle) == 0 && complete;
    return value;
  };
  out->name = fmt::format("cuda:{}", id);
  out->product = product;
  out->type = VOLLEY_DEVICE_CUDA;
  out->id = id;
  out->present = true;
  out->arch = read(kArchMajor) * 10 + read(kArchMinor);
  out->sms = read(kMultiprocessors);
  out->smem_per_block = read(kSmemPerBlockOptin);
  out->smem_per_sm = read(kSmemPerSm);
  out->l2_bytes = read(kL2Bytes);
  driver.version(&out->driver);
  return complete;
}

struct Machine {
  std::vector<Device> devices;
  std::string driver_problem;
};

Machine read_machine() {
  Machine machine;
  machine.devices.push_back({.name = "cpu", .product = "CPU", .present = true});
  const Driver driver = open_driver();
  if (!driver.complete()) return machine;
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  if (const int error = driver.init(0); error != 0) {
    if (error != kNoDevice) {
      machine.driver_problem = fmt::format("the NVIDIA driver does not start (cuInit: {})", error);
    }
    return machine;
  }
  int count = 0;
  driver.count(&count);
  for (int32_t id = 0; id < count; ++id) {
    Device device;
    if (read_gpu(driver, id, &device)) {
      machine.devices.push_back(device);
    } else {
      machine.driver_problem = fmt::format("the NVIDIA driver does not describe cuda:{}", id);
    }
  }
  return machine;
}

// Read once: GPUs do not come and go while a process runs.
const Machine& machine() {
  static const Machine instance = read_machine();
  return instance;
}

}  // namespace

const std::vector<Device>& device_profiles() {
  static const std::vector<Device> profiles = make_profiles();
  return profiles;
}

std::vector<Device> list_devices(std::string* driver_problem) {
  if (driver_problem != nullptr) *driver_problem = machine().driver_problem;
  return machine().devices;
}

Status find_device(const std::string& name, Device* out) {
  // The CPU is found without waking the driver up.
  if (name == "cpu") {
    *out = {.name = "cpu", .product = "CPU", .present = true};
    return {};
  }
  for (const Device& profile : device_profiles()) {
    if (profile.name == name) {
      *out = profile;
      return {};
    }
  }
  constexpr std::string_view kPrefix = "cuda:";
  int32_t id = -1;
  if (name.starts_with(kPrefix)) {
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, id);
    if (parsed.ec != std::errc{} || parsed.ptr != end) id = -1;
  }
  if (id < 0) {
    return invalid(VOLLEY_REASON_DEVICE,
                   "device is \"{}\", wanted cpu, cuda:N or a profile: h200, h100, a100, l40s",
                   name);
  }
  for (const Device& device : machine().devices) {
    if (device.name == name) {
      *out = device;
      return {};
    }
  }
  const auto gpus = machine().devices.size() - 1;
  return make_status(
      VOLLEY_NO_DEVICE, VOLLEY_REASON_DEVICE, "{} is not here: {}", name,
      !machine().driver_problem.empty()
          ? machine().driver_problem
          : fmt::format("this machine has {} CUDA device{}", gpus, gpus == 1 ? "" : "s"));
}

}  // namespace volley::core
