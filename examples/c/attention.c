/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Causal attention with grouped query heads through the C ABI: describe the problem, make a plan,
 * run it, and compare one output row with the textbook formula. Next: examples/cpp/attention.cpp,
 * the same in one call.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <volley/volley.h>

enum { kTokens = 37, kQueryHeads = 4, kKeyHeads = 2, kDim = 32 };

static float q[kTokens][kQueryHeads][kDim];
static float k[kTokens][kKeyHeads][kDim];
static float v[kTokens][kKeyHeads][kDim];
static float o[kTokens][kQueryHeads][kDim];
static float lse[kQueryHeads][kTokens];

/* A contiguous f32 tensor on the CPU. The fields not named are 0. */
static volley_tensor tensor(void* data, int32_t ndim, const int64_t* shape) {
  volley_tensor t = {0};
  int64_t stride = 1;
  t.data = data;
  t.dtype = VOLLEY_F32;
  t.ndim = ndim;
  t.device_type = VOLLEY_DEVICE_CPU;
  for (int32_t i = ndim - 1; i >= 0; --i) {
    t.shape[i] = shape[i];
    t.stride[i] = stride;
    stride *= shape[i];
  }
  return t;
}

static void fill(float* values, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(seed >> 8) / (float)(1u << 23) - 1.0f; /* in [-1, 1) */
  }
}

/* The textbook: softmax(q k^T / sqrt(d)) v for one row, in double. Returns the largest error. */
static double error_of_row(int row, int head) {
  double weight[kTokens], sum = 0, worst = 0;
  const int key_head = head / (kQueryHeads / kKeyHeads);
  for (int j = 0; j <= row; ++j) {
    double dot = 0;
    for (int c = 0; c < kDim; ++c) dot += (double)q[row][head][c] * k[j][key_head][c];
    weight[j] = exp(dot / sqrt(kDim));
    sum += weight[j];
  }
  for (int c = 0; c < kDim; ++c) {
    double wanted = 0;
    for (int j = 0; j <= row; ++j) wanted += weight[j] / sum * v[j][key_head][c];
    worst = fmax(worst, fabs(o[row][head][c] - wanted));
  }
  return fmax(worst, fabs(lse[head][row] - log(sum)));
}

int main(void) {
  const int64_t q_shape[] = {1, kTokens, kQueryHeads, kDim};
  const int64_t k_shape[] = {1, kTokens, kKeyHeads, kDim};
  const int64_t lse_shape[] = {1, kQueryHeads, kTokens};
  fill(&q[0][0][0], sizeof q / sizeof(float), 1);
  fill(&k[0][0][0], sizeof k / sizeof(float), 2);
  fill(&v[0][0][0], sizeof v / sizeof(float), 3);

  /* 1. The problem: geometry and options. */
  const volley_tensor tq = tensor(q, 4, q_shape), tk = tensor(k, 4, k_shape);
  const volley_tensor tv = tensor(v, 4, k_shape), to = tensor(o, 4, q_shape);
  const volley_tensor tlse = tensor(lse, 3, lse_shape);
  volley_problem problem;
  volley_problem_init(&problem);
  problem.q = &tq;
  problem.k = &tk;
  problem.v = &tv;
  problem.o = &to;
  problem.lse = &tlse;
  problem.causal = 1;

  /* 2. The plan: which backend, and why. */
  volley_plan* plan = NULL;
  volley_error error;
  if (volley_plan_create(&problem, NULL, &plan, &error) != VOLLEY_OK) {
    fprintf(stderr, "plan: %s\n", error.message);
    return 1;
  }
  char text[4096];
  volley_plan_describe(plan, VOLLEY_FORMAT_TEXT, text, sizeof text);
  printf("%s", text);

  /* 3. The run, as often as you like: here on the buffers that the problem named. */
  volley_buffers buffers;
  volley_buffers_init(&buffers);
  volley_buffers_from_problem(&problem, &buffers, NULL);
  const uint64_t workspace_size = volley_plan_workspace_size(plan);
  void* workspace = workspace_size ? aligned_alloc(256, (workspace_size + 255) / 256 * 256) : NULL;
  const int32_t status = volley_run(plan, &buffers, workspace, workspace_size, NULL, &error);
  free(workspace);
  volley_plan_destroy(plan);
  if (status != VOLLEY_OK) {
    fprintf(stderr, "run: %s\n", error.message);
    return 1;
  }

  double worst = 0;
  for (int head = 0; head < kQueryHeads; ++head)
    for (int row = 0; row < kTokens; ++row) worst = fmax(worst, error_of_row(row, head));
  printf("largest error of o and lse against the textbook: %.1e\n", worst);
  return worst < 1e-5 ? 0 : 1;
}
