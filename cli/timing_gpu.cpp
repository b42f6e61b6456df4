// SPDX-License-Identifier: BSD-3-Clause
//
// The GPU's protocols of timing.h, on the CUDA run time.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <chrono>
#include <thread>

#include "error.h"
#include "gpu_kernels.h"
#include "timing.h"

namespace volley::cli {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) failure("{} failed: {}", what, cudaGetErrorString(error));
}

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_), "the GPU's work"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// Two points in a stream, and the time between them.
class Interval {
 public:
  Interval() {
    check(cudaEventCreate(&begin_), "an event");
    check(cudaEventCreate(&end_), "an event");
  }
  ~Interval() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Interval(const Interval&) = delete;
  Interval& operator=(const Interval&) = delete;
  void begin(cudaStream_t stream) { check(cudaEventRecord(begin_, stream), "an event"); }
  void end(cudaStream_t stream) { check(cudaEventRecord(end_, stream), "an event"); }
  double ms() const {
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, begin_, end_), "an event");
    return elapsed;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

// So many calls, captured once.
class Graph {
 public:
  Graph(const Call& call, int calls, const Stream& stream) {
    call(stream);  // whatever is done once is done outside
    stream.wait();
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "a capture");
    for (int i = 0; i < calls; ++i) call(stream);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "a capture");
    const cudaError_t error = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "a graph");
  }
  ~Graph() { cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void replay(const Stream& stream) const { check(cudaGraphLaunch(graph_, stream), "a graph"); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

// The SM clock now, through the driver's monitoring library; nothing where that does not answer.
std::optional<double> read_ghz() {
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto find = reinterpret_cast<int (*)(const char*, void**)>(
      dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  const auto clock =
      reinterpret_cast<int (*)(void*, int, unsigned*)>(dlsym(library, "nvmlDeviceGetClockInfo"));
  char bus[32] = {};
  void* device = nullptr;
  unsigned mhz = 0;
  constexpr int kSmClock = 1;
  if (init == nullptr || find == nullptr || clock == nullptr || init() != 0 ||
      cudaDeviceGetPCIBusId(bus, sizeof bus, 0) != cudaSuccess || find(bus, &device) != 0 ||
      clock(device, kSmClock, &mhz) != 0) {
    return {};
  }
  return mhz / 1000.0;
}

}  // namespace

Times sustained(const Call& call) {
  constexpr int kRounds = 3, kReplays = 7, kCalls = 20;
  constexpr double kWarmMs = 100;
  const Stream stream;
  const Graph graph(call, kCalls, stream);
  Times times, clocks;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    do {
      graph.replay(stream);
      stream.wait();
    } while (ms_since(begin) < kWarmMs);
    std::vector<Interval> intervals(kReplays);
    for (Interval& interval : intervals) {
      interval.begin(stream);
      graph.replay(stream);
      interval.end(stream);
    }
    if (const auto ghz = read_ghz()) clocks.ms.push_back(*ghz);  // while it works
    stream.wait();
    for (const Interval& interval : intervals) times.ms.push_back(interval.ms() / kCalls);
  }
  if (!clocks.ms.empty()) times.ghz = clocks.quantile(0.5);
  return times;
}

Times burst(const Call& call) {
  constexpr int kRepeats = 12;
  constexpr auto kIdle = std::chrono::milliseconds(15);
  constexpr unsigned long long kSpinNs = 2'000'000;  // longer than the host takes to queue the rest
  const Stream stream;
  const Graph graph(call, 1, stream);
  Times times;
  Interval interval;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::this_thread::sleep_for(kIdle);
    launch_spin(kSpinNs, stream);
    interval.begin(stream);
    graph.replay(stream);
    interval.end(stream);
    stream.wait();
    times.ms.push_back(interval.ms());
  }
  return times;
}

HostTimes host(const Call& call) {
  constexpr int kBatches = 50, kCalls = 100;  // a queue holds about a thousand launches
  const Stream stream;
  const Call empty = launch_empty;
  const auto batch_of = [&](const Call& contestant) {
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) contestant(stream);
    const double ms = ms_since(begin) / kCalls;
    stream.wait();
    return ms;
  };
  batch_of(call);  // these warm up
  batch_of(empty);
  HostTimes times;
  for (int batch = 0; batch < kBatches; ++batch) {
    times.call.ms.push_back(batch_of(call));
    times.empty.ms.push_back(batch_of(empty));
  }
  return times;
}

}  // namespace volley::cli
