// SPDX-License-Identifier: BSD-3-Clause
//
// One call through the C ABI, under watch.
#include "runner.h"

#include <cstring>
#include <memory>

#include "compare.h"
#include "device_memory.h"
#include "fmt.h"
#include "offered.h"

namespace volley::check {
namespace {

struct PlanDeleter {
  void operator()(volley_plan* plan) const { volley_plan_destroy(plan); }
};
using Plan = std::unique_ptr<volley_plan, PlanDeleter>;

bool on_gpu(int32_t backend) {
  return backend == VOLLEY_BACKEND_SM80 || backend == VOLLEY_BACKEND_SM90;
}

Answer answer_of(const volley_error& error) {
  return {error.code, error.reason, error.message, {}};
}

// FNV-1a over 8-byte words: enough to see that bytes changed.
uint64_t digest(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes.size(); i += sizeof hash) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
    hash = (hash ^ word) * 0x100000001b3u;
  }
  return hash;
}

using Digests = std::array<uint64_t, core::kRoleCount>;

Digests digests_of(const Instance& instance) {
  Digests digests{};
  for (size_t role = 0; role < core::kRoleCount; ++role) {
    digests[role] = digest(instance.tensors[role].storage());
  }
  return digests;
}

// What the call did that it must not do, or nothing.
std::string find_damage(const Instance& instance, const Digests& before, bool refused) {
  for (const core::RoleInfo& role : core::kRoles) {
    const HostTensor& t = instance[role.role];
    if (!t.present()) continue;
    if (!instance.writes(role.role)) {
      if (digest(t.storage()) == before[static_cast<size_t>(role.role)]) continue;
      return fmt::format("the input {} was written", role.name);
    }
    if (refused && digest(t.storage()) != before[static_cast<size_t>(role.role)]) {
      return fmt::format("{} was written by a call that was refused", role.name);
    }
    if (!t.untouched_outside()) {
      return fmt::format("memory around or between the elements of {} was written", role.name);
    }
  }
  return {};
}

Answer make_plan(const volley_problem& problem, Plan* plan) {
  volley_plan* raw = nullptr;
  volley_error error{};
  volley_plan_create(&problem, nullptr, &raw, &error);
  plan->reset(raw);
  return answer_of(error);
}

Answer run_plan(const Plan& plan, const volley_problem& problem, void* workspace) {
  volley_buffers buffers;
  volley_error error{};
  if (volley_buffers_from_problem(&problem, &buffers, &error) == VOLLEY_OK) {
    volley_run(plan.get(), &buffers, workspace, volley_plan_workspace_size(plan.get()), nullptr,
               &error);
  }
  return answer_of(error);
}

// A poisoned workspace with margins of its own; in doubles, so that checking them is quick.
HostTensor make_workspace(const Plan& plan) {
  const auto bytes = static_cast<int64_t>(volley_plan_workspace_size(plan.get()));
  return {VOLLEY_F64, {(bytes + 7) / 8}};
}

Answer run_on_host(const volley_problem& problem) {
  Plan plan;
  Answer answer = make_plan(problem, &plan);
  if (!answer.ok()) return answer;
  const HostTensor workspace = make_workspace(plan);
  answer = run_plan(plan, problem, workspace.data());
  if (!workspace.untouched_outside()) answer.broken = "memory around the workspace was written";
  return answer;
}

Answer run_on_gpu(Instance& instance, volley_problem problem) {
  std::string why;
  if (!gpu_available(&why)) return {VOLLEY_NO_DEVICE, VOLLEY_REASON_DEVICE, why, {}};
  std::array<DeviceCopy, core::kRoleCount> copies;
  for (const core::RoleInfo& role : core::kRoles) {
    if (!instance[role.role].present()) continue;
    DeviceCopy& copy = copies[static_cast<size_t>(role.role)] = DeviceCopy(instance[role.role]);
    if (copy.view() == nullptr) {
      return {VOLLEY_OUT_OF_MEMORY, 0, fmt::format("no device memory for {}", role.name), {}};
    }
    auto* field = reinterpret_cast<char*>(&problem) + role.problem_offset;
    *reinterpret_cast<const volley_tensor**>(field) = copy.view();
  }
  Plan plan;
  Answer answer = make_plan(problem, &plan);
  if (answer.ok()) {
    HostTensor workspace = make_workspace(plan);
    const DeviceCopy on_device(workspace);
    answer = run_plan(plan, problem, on_device.data());
    if (const std::string error = gpu_synchronize(); !error.empty()) {
      return {VOLLEY_DEVICE_ERROR, 0, error, {}};
    }
    on_device.download(&workspace);
    if (!workspace.untouched_outside()) answer.broken = "memory around the workspace was written";
  }
  for (size_t role = 0; role < core::kRoleCount; ++role) {
    if (instance.tensors[role].present()) copies[role].download(&instance.tensors[role]);
  }
  return answer;
}

// Poison, or what a backward that accumulates adds to.
void prepare_outputs(Instance& instance) {
  for (const core::RoleInfo& role : core::kRoles) {
    HostTensor& t = instance[role.role];
    if (!instance.writes(role.role) || !t.present()) continue;
    t.poison();
    if (instance.c.accumulate) start_values(instance.c, role.role, &t);
  }
}

// Rows that no sequence uses become poison again: a backward must not read them.
void poison_unused_rows(Instance& instance) {
  const Case& c = instance.c;
  const HostTensor o = instance[Role::kO].clone();
  const HostTensor lse = instance[Role::kLse].clone();
  instance[Role::kO].poison();
  instance[Role::kLse].poison();
  for (int64_t n = 0; n < c.b; ++n) {
    const Span rows = query_span(c, n);
    for (int64_t i = 0; i < rows.used; ++i) {
      for (int64_t h = 0; h < c.hq; ++h) {
        const Index at = c.cu_q.empty() ? Index{{n, h, i}, 3} : Index{{h, rows.begin + i}, 2};
        instance[Role::kLse].set(at, lse.at(at));
        for (int64_t x = 0; x < c.dv; ++x) {
          const Index element = instance.index(Role::kO, n, i, h, x);
          instance[Role::kO].set(element, o.at(element));
        }
      }
    }
  }
}

Verdict failed(std::string sentence) { return {Result::kFailed, std::move(sentence)}; }

}  // namespace

Answer run(Instance& instance, int32_t backend) {
  prepare_outputs(instance);
  const Digests before = digests_of(instance);
  volley_problem problem = instance.problem();
  problem.backend = backend;
  Answer answer = on_gpu(backend) ? run_on_gpu(instance, problem) : run_on_host(problem);
  if (answer.broken.empty()) {
    answer.broken = find_damage(instance, before, answer.code != VOLLEY_OK);
  }
  return answer;
}

bool backend_available(int32_t backend, std::string* why) {
  Case c;
  c.b = 0;
  Instance instance = build(c);
  const Answer answer = run(instance, backend);
  if (why != nullptr) *why = answer.message;
  return answer.ok();
}

Oracle exact_of(const Instance& instance) {
  Oracle oracle;
  Instance exact = instance;  // shares the inputs
  const HostTensor& lse = instance[Role::kLse];
  oracle.o = exact[Role::kO] = HostTensor(VOLLEY_F64, instance[Role::kO].shape());
  if (lse.present()) oracle.lse = exact[Role::kLse] = HostTensor(VOLLEY_F64, lse.shape());
  oracle.answer = run(exact, VOLLEY_BACKEND_REFERENCE);
  return oracle;
}

Oracle oracle_of(const Instance& instance) {
  Oracle oracle = exact_of(instance);
  oracle.naive = naive_forward(instance);
  return oracle;
}

Verdict judge_answer(const Instance& instance, int32_t backend, const Answer& answer) {
  if (!answer.broken.empty()) return failed(answer.broken);
  if (answer.ok()) return {};
  const char* name = volley_backend_name(backend);
  if (answer.code != VOLLEY_NOT_OFFERED) {
    return failed(fmt::format("{} answered {} ({}): {}", name, volley_status_name(answer.code),
                              volley_reason_name(answer.reason), answer.message));
  }
  if (must_offer(backend, instance)) {
    return failed(fmt::format("{} must offer this, but refused: {}", name, answer.message));
  }
  if (!reason_fits(instance, answer.reason) || answer.message.empty()) {
    return failed(fmt::format("{} refused with a reason that does not fit: {} ({})", name,
                              volley_reason_name(answer.reason), answer.message));
  }
  return {Result::kRefused, answer.message};
}

Verdict compare_forward(const Instance& instance, const Oracle& oracle) {
  if (!oracle.answer.ok()) {
    return failed("the reference failed: " + oracle.answer.message + oracle.answer.broken);
  }
  const Comparison o = compare("o", instance[Role::kO], oracle.o, oracle.naive.o, kForwardRule,
                               oracle.naive.max_logit, oracle.naive.rounding);
  if (!o.ok || !instance[Role::kLse].present()) {
    return {o.ok ? Result::kPassed : Result::kFailed, o.sentence};
  }
  const Comparison lse = compare_lse(instance[Role::kLse], oracle.lse, oracle.naive.max_logit);
  return {lse.ok ? Result::kPassed : Result::kFailed,
          lse.ok ? o.sentence + "; " + lse.sentence : lse.sentence};
}

Verdict check_forward(Instance& instance, int32_t backend) {
  const Verdict verdict = judge_answer(instance, backend, run(instance, backend));
  if (verdict.result != Result::kPassed) return verdict;
  return compare_forward(instance, oracle_of(instance));
}

Verdict fill_forward(Instance& instance, int32_t backend) {
  Case c = instance.c;
  c.op = VOLLEY_OP_FORWARD;
  c.lse = true;
  c.accumulate = false;
  Instance forward = build(c);
  for (const core::RoleInfo& role : core::kRoles) {
    if (forward[role.role].present()) forward[role.role] = instance[role.role];
  }
  Verdict verdict = judge_answer(forward, backend, run(forward, backend));
  if (verdict.result == Result::kPassed) poison_unused_rows(instance);
  if (!verdict.ok()) verdict.sentence = "the forward failed: " + verdict.sentence;
  return verdict;
}

Verdict check_backward(Instance& instance, int32_t backend, int32_t forward) {
  const Verdict filled = fill_forward(instance, forward);
  if (filled.result != Result::kPassed) return filled;
  const Verdict verdict = judge_answer(instance, backend, run(instance, backend));
  if (verdict.result != Result::kPassed) return verdict;
  Instance exact = instance;  // shares the inputs
  for (const core::RoleInfo& role : core::kRoles) {
    if (!instance.writes(role.role) || !instance[role.role].present()) continue;
    exact[role.role] = HostTensor(VOLLEY_F64, instance[role.role].shape());
  }
  const Answer answer = run(exact, VOLLEY_BACKEND_REFERENCE);
  if (!answer.ok()) return failed("the reference failed: " + answer.message + answer.broken);
  const NaiveGradients naive = naive_backward(instance);
  std::string sentences;
  for (const core::RoleInfo& role : core::kRoles) {
    if (!instance.writes(role.role) || !instance[role.role].present()) continue;
    const Comparison gradient =
        compare(role.name, instance[role.role], exact[role.role],
                naive.tensors[static_cast<size_t>(role.role)], kGradientRule, naive.max_logit,
                naive.rounding[static_cast<size_t>(role.role)]);
    if (!gradient.ok) return failed(gradient.sentence);
    sentences += (sentences.empty() ? "" : "; ") + gradient.sentence;
  }
  return {Result::kPassed, sentences};
}

}  // namespace volley::check
