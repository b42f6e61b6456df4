// SPDX-License-Identifier: BSD-3-Clause
#include "edge_cases.h"

#include "fmt.h"

namespace volley::check {
namespace {

class List {
 public:
  explicit List(int32_t dtype) : dtype_(dtype) {}

  Case& add(std::string name, int64_t sq, int64_t sk) {
    Case c;
    c.name = std::move(name);
    c.dtype = dtype_;
    c.sq = sq;
    c.sk = sk;
    c.set_heads(2, 1);
    c.seed = cases_.size() + 1;
    cases_.push_back(std::move(c));
    return cases_.back();
  }

  std::vector<Case> take() { return std::move(cases_); }

 private:
  int32_t dtype_;
  std::vector<Case> cases_;
};

void set_head_dim(Case& c, int64_t d, int64_t dv) { c.d = d, c.dv = dv; }

void add_lengths(List& list) {
  for (const int64_t tile : {64, 80, 128, 176, 192}) {
    for (const int64_t length : {tile - 1, tile, tile + 1}) {
      list.add(fmt::format("tile {}", length), length, length);
      list.add(fmt::format("causal tile {}", length), length, length).causal = true;
      Case& wide = list.add(fmt::format("causal d=128 tile {}", length), length - 2, length);
      wide.causal = true;
      set_head_dim(wide, 128, 128);
      list.add(fmt::format("one query, {} keys", length), 1, length);
    }
  }
  for (const int64_t prime : {1, 2, 3, 7, 13, 31, 61, 127, 251, 499}) {
    list.add(fmt::format("prime {}", prime), prime, prime + 1).causal = true;
    list.add(fmt::format("prime {}, one key", prime), prime, 1);
  }
}

void add_head_dims(List& list) {
  for (const int64_t d : {1, 2, 3, 8, 40, 63, 65, 80, 96, 120, 128, 192, 256}) {
    set_head_dim(list.add(fmt::format("head dim {}", d), 33, 70), d, d);
  }
  set_head_dim(list.add("d=192 dv=128", 20, 150), 192, 128);
  set_head_dim(list.add("d=64 dv=512", 20, 70), 64, 512);
  set_head_dim(list.add("d=576 dv=512", 5, 70), 576, 512);
  set_head_dim(list.add("d=32 dv=1", 20, 70), 32, 1);
}

void add_empty(List& list) {
  list.add("no queries", 0, 40);
  list.add("no keys", 40, 0);
  list.add("no keys, causal", 40, 0).causal = true;
  list.add("nothing", 0, 0);
  list.add("no batch", 3, 3).b = 0;
  list.add("no heads", 3, 3).set_heads(0, 0);
  list.add("no query heads", 3, 3).set_heads(0, 2);
  Case& sink = list.add("no keys, but a sink", 5, 0);
  sink.sink = true;
}

void add_masks(List& list) {
  list.add("rows without keys", 200, 70).causal = true;
  Case& top_left = list.add("top-left", 70, 200);
  top_left.causal = true;
  top_left.alignment = VOLLEY_ALIGN_TOP_LEFT;
  for (const int64_t offset : {-1000, -70, -1, 0, 1, 63, 200, 1000}) {
    Case& c = list.add(fmt::format("offset {}", offset), 70, 200);
    c.causal = true;
    c.alignment = VOLLEY_ALIGN_EXPLICIT;
    c.offset = offset;
  }
  for (const auto& [left, right] : {std::pair<int64_t, int64_t>{0, 0},
                                    {1, 0},
                                    {63, 0},
                                    {64, 0},
                                    {127, 0},
                                    {128, 5},
                                    {-1, 3},
                                    {10, -1},
                                    {300, 300}}) {
    Case& c = list.add(fmt::format("window {},{}", left, right), 130, 260);
    c.left = left;
    c.right = right;
  }
  Case& late = list.add("first tiles masked", 40, 450);
  late.left = 5;
  late.right = 0;
}

void add_layouts(List& list) {
  for (int i = 0; i < static_cast<int>(Layout::kCount); ++i) {
    const auto layout = static_cast<Layout>(i);
    Case& all = list.add(fmt::format("layout {}", layout_name(layout)), 67, 90);
    all.b = 2;
    all.set_heads(4, 2);
    all.set_layout(layout);
    Case& key = list.add(fmt::format("k layout {}", layout_name(layout)), 67, 90);
    key.b = 2;
    key.set_heads(4, 2);
    key.k_layout = layout;
  }
}

void add_heads(List& list) {
  for (const auto& [hq, hk] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 1}, {8, 2}, {9, 3}, {21, 7}, {16, 1}, {12, 12}}) {
    Case& c = list.add(fmt::format("heads {}/{}", hq, hk), 35, 70);
    c.b = 2;
    c.set_heads(hq, hk);
    c.causal = hq % 2 == 1;
  }
}

void add_magnitudes(List& list) {
  for (const double deviation : {8.0, 30.0}) {
    list.add(fmt::format("logits of std {}", deviation), 100, 300).logit_std = deviation;
    Case& causal = list.add(fmt::format("causal logits of std {}", deviation), 150, 150);
    causal.logit_std = deviation;
    causal.causal = true;
  }
  list.add("logits of +-5e4", 60, 200).values = Values::kHuge;
  Case& causal = list.add("causal logits of +-5e4", 130, 130);
  causal.values = Values::kHuge;
  causal.causal = true;
  Case& capped = list.add("capped logits of +-5e4", 60, 200);
  capped.values = Values::kHuge;
  capped.softcap = 30;
  list.add("scale 0", 30, 90).scale = 0;
  list.add("negative scale", 30, 90).scale = -0.2;
  list.add("softcap 2", 30, 90).softcap = 2;
  list.add("sink", 30, 90).sink = true;
}

void add_sequences(List& list) {
  for (const bool causal : {false, true}) {
    Case& packed = list.add("packed", 134, 203);  // the last two rows belong to nobody
    packed.b = 5;
    packed.cu_q = {0, 1, 1, 66, 67, 132};
    packed.cu_k = {0, 129, 130, 130, 200, 201};
    packed.causal = causal;
    Case& used = list.add("used lengths", 70, 200);
    used.b = 4;
    used.used_q = {70, 1, 0, 33};
    used.used_k = {200, 65, 17, 0};
    used.causal = causal;
    Case& both = list.add("packed and used", 132, 201);
    both.b = 5;
    both.cu_q = packed.cu_q;
    both.cu_k = packed.cu_k;
    both.used_q = {1, 0, 64, 1, 50};
    both.used_k = {64, 0, 0, 69, 1};
    both.causal = causal;
  }
}

}  // namespace

std::vector<Case> edge_cases(int32_t dtype) {
  List list(dtype);
  add_lengths(list);
  add_head_dims(list);
  add_empty(list);
  add_masks(list);
  add_layouts(list);
  add_heads(list);
  add_magnitudes(list);
  add_sequences(list);
  if (dtype != VOLLEY_F32) list.add("fp32 output", 40, 90).out_dtype = VOLLEY_F32;
  return list.take();
}

std::vector<Case> mask_cases(int32_t dtype) {
  List list(dtype);
  for (const auto& [sq, sk] : {std::pair<int64_t, int64_t>{65, 65},
                               {129, 193},
                               {193, 129},
                               {1, 200},
                               {200, 1},
                               {64, 385}}) {
    list.add("full", sq, sk);
    for (const int32_t alignment :
         {VOLLEY_ALIGN_BOTTOM_RIGHT, VOLLEY_ALIGN_TOP_LEFT, VOLLEY_ALIGN_EXPLICIT}) {
      const int64_t offset = alignment == VOLLEY_ALIGN_EXPLICIT ? 37 : 0;
      const auto band = [&](bool causal, int64_t left, int64_t right) {
        Case& c = list.add(fmt::format("band {},{}", left, causal ? 0 : right), sq, sk);
        c.causal = causal;
        c.left = left;
        c.right = right;
        c.alignment = alignment;
        c.offset = offset;
      };
      band(true, -1, -1);
      band(true, 16, 100);
      band(false, 0, 0);
      band(false, 63, 64);
      band(false, -1, 5);
      band(false, 10, -1);
    }
  }
  return list.take();
}

}  // namespace volley::check
