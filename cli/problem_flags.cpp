// SPDX-License-Identifier: BSD-3-Clause
//
// See problem_flags.h.
#include "problem_flags.h"

#include "cli11.h"

namespace volley::cli {
namespace {

void add_geometry_flags(CLI::App& app, GeometryFlags* flags) {
  const char* group = "Geometry";
  const auto number = [&](const char* name, int64_t* value, const char* help) {
    app.add_option(name, *value, help)->check(not_negative())->type_name("N")->group(group);
  };
  app.add_option("--dtype", flags->dtype, "bf16 (default), fp16, e4m3, fp32 or fp64")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--o-dtype", flags->o_dtype, "Of the output (default: as the inputs)")
      ->type_name("NAME")
      ->group(group);
  number("--b", &flags->b, "Sequences (default 1)");
  number("--sq", &flags->sq, "Query length (default 4096)");
  number("--sk", &flags->sk, "Key length (default: sq)");
  number("--hq", &flags->hq, "Query heads (default 16)");
  number("--hk", &flags->hk, "Key heads (default: hq)");
  number("--d", &flags->d, "Head dim of q and k (default 128)");
  number("--dv", &flags->dv, "Head dim of v and o (default: d)");
  number("--page", &flags->page, "Paged keys and values, N rows a page");
  number("--row-padding", &flags->padding, "Elements between the rows of q, k, v and o");
  number("--misaligned", &flags->alignment, "Bytes that base addresses are aligned to");
  app.add_flag("--varlen", flags->varlen, "Packed sequences, cu_seqlens")->group(group);
  app.add_flag("--used-lengths", flags->used_lengths, "seqused_q and seqused_k")->group(group);
  app.add_flag("--backward", flags->backward, "The backward pass")->group(group);
}

void add_option_flags(CLI::App& app, ProblemFlags* flags) {
  const char* group = "Options";
  GeometryFlags& geometry = flags->geometry;
  volley_problem& options = flags->options;
  app.add_flag("--sink", geometry.sink, "A learnable sink")->group(group);
  app.add_flag("--bias", geometry.bias, "An additive bias")->group(group);
  app.add_flag("--alibi", geometry.alibi, "ALiBi slopes")->group(group);
  app.add_flag("--mask", geometry.mask, "A boolean mask")->group(group);
  app.add_flag("--descale", geometry.descale, "Scales of q, k and v")->group(group);
  app.add_option("--dropout", options.dropout_p, "Probability that a weight is dropped")
      ->type_name("P")
      ->group(group);
  const auto number = [&](const char* name, auto* value, const char* help) {
    app.add_option(name, *value, help)->check(not_negative())->type_name("N")->group(group);
  };
  number("--splits", &options.num_splits, "Splits of the keys");
  number("--split-size", &options.split_size, "Keys a split");
  number("--max-sms", &options.max_sms, "Use at most N multiprocessors");
  number("--threads", &options.num_threads, "Of the CPU backends (default: all cores)");
  app.add_flag("--deterministic", options.deterministic, "Equal bits in every run")->group(group);
  app.add_flag("--batch-invariant", options.batch_invariant, "Bits that no neighbour changes")
      ->group(group);
  const std::map<std::string, int32_t> precisions = {{"default", VOLLEY_PRECISION_DEFAULT},
                                                     {"fp8", VOLLEY_PRECISION_FP8},
                                                     {"mixed", VOLLEY_PRECISION_MIXED},
                                                     {"int8_qk", VOLLEY_PRECISION_INT8_QK}};
  app.add_option_function<std::string>(
         "--precision",
         [=](const std::string& name) { flags->options.precision = precisions.at(name); },
         "default, fp8, mixed or int8_qk")
      ->check(unsaid(CLI::IsMember(precisions)))
      ->type_name("NAME")
      ->group(group);
  app.add_flag("--fast", options.accuracy, "Fast rather than accurate")->group(group);
}

// Options that are plain numbers go from the flags' problem to the real one.
void copy_options(const volley_problem& from, volley_problem* to) {
  to->backend = from.backend;
  to->dropout_p = from.dropout_p;
  to->precision = from.precision;
  to->accuracy = from.accuracy;
  to->deterministic = from.deterministic;
  to->batch_invariant = from.batch_invariant;
  to->num_splits = from.num_splits;
  to->split_size = from.split_size;
  to->max_sms = from.max_sms;
  to->num_threads = from.num_threads;
}

}  // namespace

void add_problem_flags(CLI::App& app, ProblemFlags* flags) {
  add_geometry_flags(app, &flags->geometry);
  add_score_flags(app, &flags->score);
  add_option_flags(app, flags);
  add_backend_flag(app, &flags->options.backend);
}

std::unique_ptr<Geometry> make_geometry(const ProblemFlags& flags, int32_t device_type) {
  GeometryFlags geometry = flags.geometry;
  geometry.dropout = flags.options.dropout_p > 0;
  auto result = std::make_unique<Geometry>(geometry, device_type);
  copy_options(flags.options, &result->problem);
  apply(flags.score, &result->problem);
  return result;
}

}  // namespace volley::cli
