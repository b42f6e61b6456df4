// SPDX-License-Identifier: BSD-3-Clause
#include "edge_cases.h"
#include "fmt.h"

namespace volley::check {
namespace {

class List {
 public:
  explicit List(int32_t dtype) : dtype_(dtype), cases_(edge_cases(dtype)) {}

  // Both lengths reach into a third tile, whatever the tile.
  Case& add(const std::string& name) {
    Case c;
    c.name = name;
    c.dtype = dtype_;
    c.b = 2;
    c.sq = 139;
    c.sk = 150;
    c.set_heads(4, 2);
    c.d = 40;
    c.dv = 24;
    c.causal = cases_.size() % 2 == 0;
    c.seed = cases_.size() + 1;
    cases_.push_back(std::move(c));
    return cases_.back();
  }

  // Every third case has a gradient of LSE as well, every second must be deterministic, of which
  // fp16 has the others: but for those with a bias of all queries, which the option may exclude.
  std::vector<Case> take() {
    for (size_t i = 0; i < cases_.size(); ++i) {
      cases_[i].op = VOLLEY_OP_BACKWARD;
      cases_[i].lse = true;
      cases_[i].lse_gradient = cases_[i].lse_gradient || i % 3 == 0;
      const bool second = i % 2 == (dtype_ == VOLLEY_F16 ? 1 : 0);
      const bool offered = cases_[i].bias.empty() || cases_[i].bias.find('q') != std::string::npos;
      cases_[i].deterministic = cases_[i].deterministic || (second && offered);
    }
    return std::move(cases_);
  }

 private:
  int32_t dtype_;
  std::vector<Case> cases_;
};

void add_options(List& list, int32_t dtype) {
  list.add("dlse").lse_gradient = true;
  list.add("accumulate").accumulate = true;
  if (dtype != VOLLEY_F32) {
    list.add("fp32 gradients").grad_dtype = VOLLEY_F32;
    Case& wide = list.add("fp32 gradients, accumulate, fp32 output");
    wide.grad_dtype = wide.out_dtype = VOLLEY_F32;
    wide.accumulate = true;
  }
  Case& sink = list.add("sink and rows without keys");
  sink.sink = sink.lse_gradient = true;
  sink.sk = 30;
  Case& no_dsink = list.add("no dsink, no dbias");
  no_dsink.sink = true;
  no_dsink.bias = "qk";
  no_dsink.optional_gradients = false;
}

void add_scores(List& list, int32_t dtype) {
  for (const char* axes : {"bhqk", "hqk", "bqk", "qk", "hk", "bk", "k", "q", "h"}) {
    list.add(fmt::format("bias of {}", axes)).bias = axes;
    list.add(fmt::format("mask of {}", axes)).mask = axes;
  }
  for (const char* axes : {"bhq", "bhk", "hq", "bq", "bh", "b"}) {
    list.add(fmt::format("bias of {}", axes)).bias = axes;
  }
  Case& own = list.add("an own dbias for each pair, deterministic");
  own.bias = "bhqk";
  own.bias_dtype = dtype == VOLLEY_F32 ? VOLLEY_BF16 : dtype;
  own.deterministic = own.batch_invariant = true;
  Case& used = list.add("an own dbias for each pair, used lengths");
  used.bias = "bhqk";
  used.used_q = {100, 0};
  used.used_k = {150, 40};
  used.left = 20;
  Case& packed = list.add("an own dbias for each pair, packed, accumulate");
  packed.bias = "bhqk";
  packed.cu_q = {0, 30, 139};
  packed.cu_k = {0, 130, 150};
  packed.accumulate = true;
  Case& accumulated = list.add("accumulate into dbias and dsink");
  accumulated.bias = "hk";
  accumulated.sink = accumulated.accumulate = true;
  list.add("alibi").alibi = true;
  list.add("dropout").dropout_p = 0.3;
  list.add("most dropped").dropout_p = 0.95;
  Case& all = list.add("all scores");
  all.bias = "bhqk";
  all.mask = "qk";
  all.alibi = all.sink = true;
  all.dropout_p = 0.2;
  all.softcap = 3;
}

void add_pages(List& list) {
  for (const int64_t page : {1, 16, 48, 64, 200}) {
    Case& c = list.add(fmt::format("pages of {}", page));
    c.page = page;
    c.used_k = {150, 49};
    c.accumulate = page == 48;
    c.dropout_p = page == 16 ? 0.2 : 0;
  }
  Case& packed = list.add("packed queries, paged keys");
  packed.b = 3;
  packed.cu_q = {0, 1, 1, 138};
  packed.page = 16;
  packed.used_k = {70, 3, 150};
}

// Long enough for the keys to be cut among threads.
void add_long(List& list) {
  for (const int64_t sk : {513, 1100}) {
    Case& c = list.add(fmt::format("{} keys", sk));
    c.sq = 70;
    c.sk = sk;
    c.b = 1;
    Case& square = list.add(fmt::format("{} queries and keys", sk));
    square.sq = square.sk = sk;
    square.b = 1;
    square.set_heads(1, 1);
    square.d = square.dv = 16;
  }
}

}  // namespace

std::vector<Case> gradient_cases(int32_t dtype) {
  List list(dtype);
  add_options(list, dtype);
  add_scores(list, dtype);
  add_pages(list);
  add_long(list);
  return list.take();
}

}  // namespace volley::check
