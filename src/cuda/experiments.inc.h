// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels that are built with -DVOLLEY_EXPERIMENTS=ON only and run where VOLLEY_FWD_ROW=+n asks
// for the n-th: the rows of the table with one technique left out, and those that lost. All in
// bf16.

constexpr FwdConfig d128(MaskKind mask) {
  return mask == MaskKind::kCausal ? shape(128, 128, mask, 128, 128, 1, 3)
                                   : shape(128, 128, mask, 128, 128, 2, 2);
}
constexpr FwdConfig without_ping_pong(FwdConfig c) {
  c.ping_pong = false;
  return c;
}
constexpr FwdConfig without_overlap(FwdConfig c) {
  c.overlap = false;
  return c;
}
constexpr FwdConfig without_flat_loop(FwdConfig c) {
  c.flat = false;
  return c;
}
constexpr FwdConfig with_stages(FwdConfig c, int stages) {
  c.stages = stages;
  return c;
}
constexpr FwdConfig with_maximum(FwdConfig c, Maximum maximum) {
  c.maximum = maximum;
  return c;
}
constexpr FwdConfig in_fp16(FwdConfig c) {
  c.element = Element::kF16;
  return c;
}

inline constexpr FwdConfig kExperiments[] = {
    // 0: all techniques, and then with one left out.
    d128(MaskKind::kFull),
    without_ping_pong(d128(MaskKind::kFull)),
    without_overlap(d128(MaskKind::kFull)),
    with_stages(d128(MaskKind::kFull), 1),
    without_flat_loop(d128(MaskKind::kFull)),
    with_maximum(d128(MaskKind::kFull), Maximum::kLazy),
    with_maximum(d128(MaskKind::kFull), Maximum::kExact),
    // 7: the same, causal.
    d128(MaskKind::kCausal),
    without_ping_pong(d128(MaskKind::kCausal)),
    without_overlap(d128(MaskKind::kCausal)),
    with_stages(d128(MaskKind::kCausal), 1),
    without_flat_loop(d128(MaskKind::kCausal)),
    with_maximum(d128(MaskKind::kCausal), Maximum::kLazy),
    with_maximum(d128(MaskKind::kCausal), Maximum::kExact),
    // 14: other tiles.
    without_overlap(shape(64, 64, MaskKind::kFull, 192, 192, 2, 2)),
    without_overlap(shape(64, 64, MaskKind::kCausal, 192, 192, 2, 2)),
    shape(64, 64, MaskKind::kFull, 128, 192, 2, 3),
    shape(128, 128, MaskKind::kFull, 128, 128, 1, 3),
    shape(128, 128, MaskKind::kCausal, 128, 128, 2, 2),
    without_overlap(shape(128, 128, MaskKind::kFull, 192, 128, 2, 2)),
    shape(256, 256, MaskKind::kCausal, 128, 80, 1, 2),
    shape(256, 256, MaskKind::kFull, 128, 64, 1, 2),
    shape(128, 128, MaskKind::kCausal, 128, 176, 1, 2),
    shape(128, 128, MaskKind::kCausal, 128, 160, 2, 2),
    shape(128, 128, MaskKind::kFull, 128, 160, 2, 2),
    in_fp16(with_maximum(d128(MaskKind::kFull), Maximum::kLazy)),
};
