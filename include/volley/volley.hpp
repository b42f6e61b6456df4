// SPDX-License-Identifier: BSD-3-Clause
//
// volley.hpp: the C++17 API of Volley, a header-only layer over the C ABI in volley.h. It adds
// typed views, options with defaults, plans that free themselves and results that carry their
// error; it never throws by itself (only Result::value() of a failed result does).
//
//   volley::Operands x;
//   x.q = volley::view(q, {b, sq, hq, d});  // pointers to volley::bf16, volley::f16, float, ...
//   x.k = volley::view(k, {b, sk, hk, d});
//   x.v = volley::view(v, {b, sk, hk, dv});
//   x.o = volley::view(o, {b, sq, hq, dv});
//   volley::Options options;
//   options.causal = true;
//   if (auto done = volley::attention(x, options); !done) puts(done.error().message.c_str());
//
// Shapes, dtypes and every rule of the fields: docs/contract.md and the comments in volley.h.
#ifndef VOLLEY_VOLLEY_HPP
#define VOLLEY_VOLLEY_HPP

#include <volley/volley.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <volley/result.hpp>
#include <volley/tensor.hpp>

namespace volley {

// ---- What is asked ------------------------------------------------------------------------------

// The tensors of one call; the names, shapes and dtypes are those of volley_problem. Data pointers
// may be NULL while planning. q, k, v and o are always needed.
struct Operands {
  std::optional<Tensor> q, k, v, o, lse;
  std::optional<Tensor> cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, page_table;
  std::optional<Tensor> sink, bias, alibi_slopes, mask;
  std::optional<Tensor> q_descale, k_descale, v_descale, dropout_seed, dropout_offset;
  std::optional<Tensor> dout, dlse, dq, dk, dv, dbias, dsink;  // backward
};

// The options of one call; the names and meanings are those of volley_problem.
struct Options {
  std::int32_t backend = VOLLEY_BACKEND_AUTO;
  std::optional<double> scale;  // none: 1/sqrt(d)
  double softcap = 0;           // 0: none
  double dropout_p = 0;
  bool causal = false;
  std::int32_t mask_alignment = VOLLEY_ALIGN_BOTTOM_RIGHT;
  std::int64_t mask_offset = 0;   // with VOLLEY_ALIGN_EXPLICIT
  std::int64_t window_left = -1;  // -1: open
  std::int64_t window_right = -1;
  std::int64_t max_seqlen_q = 0;  // varlen: an upper bound; 0: total_q
  std::int64_t max_seqlen_k = 0;
  std::int32_t q_scale_block = 128;  // rows per descale block
  std::int32_t k_scale_block = 128;
  std::int32_t v_scale_block = 128;
  std::int32_t precision = VOLLEY_PRECISION_DEFAULT;
  std::int32_t accuracy = VOLLEY_ACCURACY_ACCURATE;
  bool deterministic = false;
  bool batch_invariant = false;
  bool accumulate_grads = false;
  std::int32_t num_splits = 0;  // 0: the plan chooses
  std::int64_t split_size = 0;
  std::int32_t max_sms = 0;      // 0: all
  std::int32_t num_threads = 0;  // 0: all, or VOLLEY_THREADS
};

// Scratch memory, on the device that the plan runs on. Its contents never matter.
struct Workspace {
  void* data = nullptr;
  std::uint64_t size = 0;
};

namespace detail {

inline Error error_of(const volley_error& error) {
  return Error{error.code, error.reason, error.message};
}
inline Result<void> result_of(std::int32_t status, const volley_error& error) {
  if (status == VOLLEY_OK) return {};
  return error_of(error);
}

inline const volley_tensor* c_of(const std::optional<Tensor>& tensor) {
  return tensor ? &tensor->c() : nullptr;
}

// Valid as long as `x` is.
inline volley_problem problem_of(std::int32_t op, const Operands& x, const Options& options) {
  volley_problem p;
  volley_problem_init(&p);
  p.op = op;
  p.backend = options.backend;
#define VOLLEY_OPERAND(name) p.name = c_of(x.name)
  VOLLEY_OPERAND(q), VOLLEY_OPERAND(k), VOLLEY_OPERAND(v), VOLLEY_OPERAND(o), VOLLEY_OPERAND(lse);
  VOLLEY_OPERAND(cu_seqlens_q), VOLLEY_OPERAND(cu_seqlens_k);
  VOLLEY_OPERAND(seqused_q), VOLLEY_OPERAND(seqused_k), VOLLEY_OPERAND(page_table);
  VOLLEY_OPERAND(sink), VOLLEY_OPERAND(bias), VOLLEY_OPERAND(alibi_slopes), VOLLEY_OPERAND(mask);
  VOLLEY_OPERAND(q_descale), VOLLEY_OPERAND(k_descale), VOLLEY_OPERAND(v_descale);
  VOLLEY_OPERAND(dropout_seed), VOLLEY_OPERAND(dropout_offset);
  VOLLEY_OPERAND(dout), VOLLEY_OPERAND(dlse), VOLLEY_OPERAND(dq), VOLLEY_OPERAND(dk);
  VOLLEY_OPERAND(dv), VOLLEY_OPERAND(dbias), VOLLEY_OPERAND(dsink);
#undef VOLLEY_OPERAND
  p.scale = options.scale.value_or(std::numeric_limits<double>::quiet_NaN());
  p.softcap = options.softcap;
  p.dropout_p = options.dropout_p;
  p.causal = options.causal;
  p.mask_alignment = options.mask_alignment;
  p.mask_offset = options.mask_offset;
  p.window_left = options.window_left;
  p.window_right = options.window_right;
  p.max_seqlen_q = options.max_seqlen_q;
  p.max_seqlen_k = options.max_seqlen_k;
  p.q_scale_block = options.q_scale_block;
  p.k_scale_block = options.k_scale_block;
  p.v_scale_block = options.v_scale_block;
  p.precision = options.precision;
  p.accuracy = options.accuracy;
  p.deterministic = options.deterministic;
  p.batch_invariant = options.batch_invariant;
  p.accumulate_grads = options.accumulate_grads;
  p.num_splits = options.num_splits;
  p.split_size = options.split_size;
  p.max_sms = options.max_sms;
  p.num_threads = options.num_threads;
  return p;
}

template <class Write>
std::string text_of(Write write) {
  std::string text(static_cast<std::size_t>(write(nullptr, 0)), '\0');
  write(text.data(), text.size() + 1);  // the terminating 0 is the string's own
  return text;
}

}  // namespace detail

// ---- Plans --------------------------------------------------------------------------------------

// What will run, and why; immutable, movable, usable from many threads at once.
class Plan {
 public:
  // Decides from geometry and options alone. device: NULL for where the tensors are, "cpu",
  // "cuda:0", or a profile of a machine that is not here ("h200", "h100", "a100", "l40s").
  static Result<Plan> forward(const Operands& x, const Options& options = {},
                              const char* device = nullptr) {
    return create(VOLLEY_OP_FORWARD, x, options, device);
  }
  static Result<Plan> backward(const Operands& x, const Options& options = {},
                               const char* device = nullptr) {
    return create(VOLLEY_OP_BACKWARD, x, options, device);
  }

  std::int32_t backend() const { return volley_plan_backend(plan_.get()); }
  const char* backend_name() const { return volley_backend_name(backend()); }
  // Why the fastest backend of this device was passed over; VOLLEY_REASON_NONE if it runs.
  std::int32_t reason() const { return volley_plan_reason(plan_.get()); }
  std::uint64_t workspace_size() const { return volley_plan_workspace_size(plan_.get()); }
  std::string text() const { return describe(VOLLEY_FORMAT_TEXT); }
  std::string json() const { return describe(VOLLEY_FORMAT_JSON); }

  // Runs on the operands' data pointers; their geometry must be what was planned. On the CPU a
  // missing workspace is allocated for the call; on a GPU it is yours to bring (256-byte aligned
  // device memory), stream is a cudaStream_t, and the call only enqueues.
  Result<void> run(const Operands& x, Workspace workspace = {}, void* stream = nullptr) const {
    volley_problem problem = detail::problem_of(VOLLEY_OP_FORWARD, x, {});
    volley_buffers buffers;
    volley_buffers_init(&buffers);
    volley_error error = {};
    std::int32_t status = volley_buffers_from_problem(&problem, &buffers, &error);
    if (status != VOLLEY_OK) return detail::error_of(error);

    HostMemory own;
    bool on_host = x.q && x.q->c().device_type == VOLLEY_DEVICE_CPU;
    if (on_host && workspace.data == nullptr && workspace_size() > 0) {
      own.reset(::operator new(workspace_size(), kAlignment, std::nothrow));
      if (!own) return Error{VOLLEY_OUT_OF_MEMORY, VOLLEY_REASON_WORKSPACE, "no workspace"};
      workspace = {own.get(), workspace_size()};
    }
    status = volley_run(plan_.get(), &buffers, workspace.data, workspace.size, stream, &error);
    return detail::result_of(status, error);
  }

  const volley_plan* c() const { return plan_.get(); }
  friend bool operator==(const Plan& a, const Plan& b) { return volley_plan_equal(a.c(), b.c()); }
  friend bool operator!=(const Plan& a, const Plan& b) { return !(a == b); }

 private:
  static constexpr std::align_val_t kAlignment{256};
  struct Destroy {
    void operator()(volley_plan* plan) const { volley_plan_destroy(plan); }
  };
  struct Free {
    void operator()(void* memory) const { ::operator delete(memory, kAlignment); }
  };
  using HostMemory = std::unique_ptr<void, Free>;

  explicit Plan(volley_plan* plan) : plan_(plan) {}

  static Result<Plan> create(std::int32_t op, const Operands& x, const Options& options,
                             const char* device) {
    volley_problem problem = detail::problem_of(op, x, options);
    volley_plan* plan = nullptr;
    volley_error error = {};
    std::int32_t status = volley_plan_create(&problem, device, &plan, &error);
    if (status != VOLLEY_OK) return detail::error_of(error);
    return Plan(plan);
  }

  std::string describe(std::int32_t format) const {
    return detail::text_of([&](char* buffer, std::uint64_t capacity) {
      return volley_plan_describe(plan_.get(), format, buffer, capacity);
    });
  }

  std::unique_ptr<volley_plan, Destroy> plan_;
};

// ---- One call -----------------------------------------------------------------------------------

// Plans and runs a forward. For repeated calls of one geometry keep a Plan instead.
inline Result<void> attention(const Operands& x, const Options& options = {},
                              Workspace workspace = {}, void* stream = nullptr) {
  Result<Plan> plan = Plan::forward(x, options);
  if (!plan) return plan.error();
  return plan->run(x, workspace, stream);
}

// Merges partial results over disjoint sets of keys; see volley_combine.
inline Result<void> combine(const Tensor& o_parts, const Tensor& lse_parts, const Tensor& o,
                            const std::optional<Tensor>& lse = {},
                            const std::optional<Tensor>& sink = {}, void* stream = nullptr) {
  volley_error error = {};
  std::int32_t status = volley_combine(&o_parts.c(), &lse_parts.c(), detail::c_of(sink), &o.c(),
                                       detail::c_of(lse), stream, &error);
  return detail::result_of(status, error);
}

// What this machine has, what would run on it, what is missing.
inline std::string doctor(std::int32_t format = VOLLEY_FORMAT_TEXT) {
  return detail::text_of([&](char* buffer, std::uint64_t capacity) {
    return volley_doctor(format, buffer, capacity);
  });
}

}  // namespace volley

#endif  // VOLLEY_VOLLEY_HPP
