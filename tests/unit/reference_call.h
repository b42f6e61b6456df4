// SPDX-License-Identifier: BSD-3-Clause
//
// Call: one attention call of the reference backend through the C ABI, with all its tensors, for
// the tests reference_*.cpp. Outputs are poisoned before each run.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tensor.h"
#include "volley/volley.h"

namespace volley::check {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline const double kNan = std::numeric_limits<double>::quiet_NaN();

// A contiguous tensor of these values in row-major order.
inline HostTensor tensor_of(int32_t dtype, std::vector<int64_t> shape,
                            const std::vector<double>& values) {
  HostTensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.set_flat(i, values[static_cast<size_t>(i) % values.size()]);
  }
  return tensor;
}

inline HostTensor lengths(const std::vector<double>& values) {
  return tensor_of(VOLLEY_I32, {static_cast<int64_t>(values.size())}, values);
}

inline HostTensor random_tensor(int32_t dtype, std::vector<int64_t> shape, std::mt19937_64* random,
                                double sigma = 1) {
  HostTensor tensor(dtype, std::move(shape));
  std::normal_distribution<double> normal(0, sigma);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set_flat(i, normal(*random));
  return tensor;
}

struct Call {
  volley_problem options;  // everything but the tensors
  HostTensor q, k, v, o, lse;
  HostTensor cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, page_table;
  HostTensor sink, bias, alibi_slopes, mask, q_descale, k_descale, v_descale;
  HostTensor dropout_seed, dropout_offset;
  HostTensor dout, dlse, dq, dk, dv, dbias, dsink;
  volley_error error{};  // of the last run

  Call() {
    volley_problem_init(&options);
    options.backend = VOLLEY_BACKEND_REFERENCE;
  }

  // o and lse for the q, k and v that are there; gradients for whatever may have one.
  void add_outputs(int32_t dtype, int32_t lse_dtype = VOLLEY_F32) {
    std::vector<int64_t> shape = q.shape();
    shape.back() = v.shape().back();
    o = HostTensor(dtype, shape);
    const bool packed = shape.size() == 3;
    lse = packed ? HostTensor(lse_dtype, {shape[1], shape[0]})
                 : HostTensor(lse_dtype, {shape[0], shape[2], shape[1]});
  }
  void add_gradients(int32_t dtype) {
    dq = HostTensor(dtype, q.shape());
    dk = HostTensor(dtype, k.shape());
    dv = HostTensor(dtype, v.shape());
    if (bias.present()) dbias = HostTensor(dtype, bias.shape());
    if (sink.present()) dsink = HostTensor(dtype == VOLLEY_F64 ? dtype : VOLLEY_F32, sink.shape());
  }

  // The status; outputs as they were when it is not OK.
  int32_t run(int32_t op) {
    volley_problem problem = options;
    problem.op = op;
    const bool backward = op == VOLLEY_OP_BACKWARD;
#define VOLLEY_VIEW(name) problem.name = name.view()
    VOLLEY_VIEW(q), VOLLEY_VIEW(k), VOLLEY_VIEW(v), VOLLEY_VIEW(o), VOLLEY_VIEW(lse);
    VOLLEY_VIEW(cu_seqlens_q), VOLLEY_VIEW(cu_seqlens_k), VOLLEY_VIEW(seqused_q);
    VOLLEY_VIEW(seqused_k), VOLLEY_VIEW(page_table), VOLLEY_VIEW(sink), VOLLEY_VIEW(bias);
    VOLLEY_VIEW(alibi_slopes), VOLLEY_VIEW(mask), VOLLEY_VIEW(q_descale), VOLLEY_VIEW(k_descale);
    VOLLEY_VIEW(v_descale), VOLLEY_VIEW(dropout_seed), VOLLEY_VIEW(dropout_offset);
    if (backward) {
      VOLLEY_VIEW(dout), VOLLEY_VIEW(dlse), VOLLEY_VIEW(dq), VOLLEY_VIEW(dk), VOLLEY_VIEW(dv);
      VOLLEY_VIEW(dbias), VOLLEY_VIEW(dsink);
    }
#undef VOLLEY_VIEW
    volley_plan* plan = nullptr;
    int32_t status = volley_plan_create(&problem, nullptr, &plan, &error);
    if (status != VOLLEY_OK) return status;
    volley_buffers buffers;
    status = volley_buffers_from_problem(&problem, &buffers, &error);
    if (status == VOLLEY_OK) status = volley_run(plan, &buffers, nullptr, 0, nullptr, &error);
    volley_plan_destroy(plan);
    return status;
  }

  void forward() {
    o.poison();
    if (lse.present()) lse.poison();
    ASSERT_EQ(run(VOLLEY_OP_FORWARD), VOLLEY_OK) << error.message;
  }

  void backward() {
    for (HostTensor* gradient : {&dq, &dk, &dv, &dbias, &dsink}) {
      if (gradient->present() && !options.accumulate_grads) gradient->poison();
    }
    ASSERT_EQ(run(VOLLEY_OP_BACKWARD), VOLLEY_OK) << error.message;
  }
};

inline void expect_all(const HostTensor& tensor, double value, double tolerance = 0) {
  for (int64_t i = 0; i < tensor.size(); ++i) {
    ASSERT_NEAR(tensor.flat(i), value, tolerance) << "element " << i;
  }
}

inline void expect_values(const HostTensor& tensor, const std::vector<double>& values,
                          double tolerance = 0) {
  ASSERT_EQ(tensor.size(), static_cast<int64_t>(values.size()));
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double wanted = values[static_cast<size_t>(i)];
    if (std::isinf(wanted)) {
      ASSERT_EQ(tensor.flat(i), wanted) << "element " << i;
    } else {
      ASSERT_NEAR(tensor.flat(i), wanted, tolerance) << "element " << i;
    }
  }
}

// The largest difference of two tensors of one shape; NaN if any element is.
inline double largest_difference(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double largest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a.flat(i) - b.flat(i));
    if (a.flat(i) == b.flat(i)) continue;
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) break;
  }
  return largest;
}

}  // namespace volley::check
