// SPDX-License-Identifier: BSD-3-Clause
#include "warp.h"

#include <algorithm>
#include <bit>

#include "cta.h"
#include "fmt.h"

namespace volley::emulator {

const Collective kBarrier{"sync_cta", nullptr};
const Collective kEnd{"the end of the kernel", nullptr};
const Collective kNamedBarrier[kNamedBarriers] = {
    {"barrier 0", nullptr},  {"barrier 1", nullptr},  {"barrier 2", nullptr},
    {"barrier 3", nullptr},  {"barrier 4", nullptr},  {"barrier 5", nullptr},
    {"barrier 6", nullptr},  {"barrier 7", nullptr},  {"barrier 8", nullptr},
    {"barrier 9", nullptr},  {"barrier 10", nullptr}, {"barrier 11", nullptr},
    {"barrier 12", nullptr}, {"barrier 13", nullptr}, {"barrier 14", nullptr},
    {"barrier 15", nullptr}};

void meet(const Collective& collective, void* operands) {
  Thread& self = running();
  Warp& warp = self.warp;
  const auto lane = static_cast<size_t>(self.lane);
  warp.at_[lane] = &collective;
  warp.operands_[lane] = operands;
  warp.ready_ &= ~(uint32_t{1} << lane);
  if (warp.ready_ == 0) {
    warp.complete(self);
  } else {
    const int next = std::countr_zero(std::rotr(warp.ready_, warp.first_)) + warp.first_;
    switch_to(*warp.lanes_[static_cast<size_t>(next % kLanes)]);
  }
}

void Warp::complete(Thread& last) {
  if (!converged()) last.cta.fail(divergence());
  if (at_[0]->complete == nullptr) {
    last.cta.switch_to_scheduler();  // which calls run()
  } else {
    at_[0]->complete(operands_);
    make_ready();
  }
}

void Warp::make_ready() {
  ready_ = ~uint32_t{0};
  first_ = static_cast<int>(lanes_[0]->cta.random().bits() % kLanes);
}

void Warp::run() {
  make_ready();
  Thread& first = *lanes_[static_cast<size_t>(first_)];
  first.cta.start(first);
}

bool Warp::converged() const {
  return std::all_of(at_.begin(), at_.end(), [&](const auto* at) { return at == at_[0]; });
}

std::string Warp::divergence() const {
  std::string sentence = fmt::format("warp {} has diverged", number_);
  std::vector<const Collective*> told;
  for (const Collective* at : at_) {
    if (std::find(told.begin(), told.end(), at) != told.end()) continue;
    std::vector<int> lanes;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (at_[static_cast<size_t>(lane)] == at) lanes.push_back(lane);
    }
    sentence +=
        fmt::format("{} lanes {} are at {}", told.empty() ? ":" : ",", ranges(lanes), at->name);
    told.push_back(at);
  }
  return sentence;
}

std::string ranges(const std::vector<int>& members) {
  std::string text;
  for (size_t i = 0; i < members.size(); ++i) {
    const size_t first = i;
    while (i + 1 < members.size() && members[i + 1] == members[i] + 1) ++i;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", members[first]);
    if (i > first) text += fmt::format("-{}", members[i]);
  }
  return text;
}

}  // namespace volley::emulator
