// SPDX-License-Identifier: BSD-3-Clause
//
// Plans are values: ask what would run on a machine that is not here, and read why. No buffer is
// needed. Next: varlen.cpp, sequences of different lengths in one call.
#include <cstdio>
#include <volley/volley.hpp>

namespace {

// Prints the plan, or the sentence that says why there is none.
void show(const char* title, const volley::Operands& x, const char* device) {
  volley::Options options;
  options.causal = true;
  volley::Result<volley::Plan> plan = volley::Plan::forward(x, options, device);
  if (plan)
    std::printf("--- %s, on %s\n%s", title, device, plan->text().c_str());
  else
    std::printf("--- %s, on %s\n%s (%s): %s\n", title, device, plan.error().code_name(),
                plan.error().reason_name(), plan.error().message.c_str());
}

volley::Operands operands(std::int64_t tokens, std::int64_t row) {
  auto tensor = [&](std::int64_t heads) {
    return volley::view(static_cast<volley::bf16*>(nullptr), {2, tokens, heads, 128},
                        {tokens * heads * row, heads * row, row, 1});
  };
  volley::Operands x;
  x.q = tensor(32);
  x.k = tensor(8);
  x.v = tensor(8);
  x.o = tensor(32);
  return x;
}

}  // namespace

int main() {
  for (const char* device : {"h200", "a100", "cpu"}) show("d = 128", operands(4096, 128), device);
  show("rows of 129 elements: TMA cannot take them", operands(4096, 129), "h200");

  // What a service does once: plan, keep, compare.
  volley::Result<volley::Plan> a = volley::Plan::forward(operands(4096, 128), {}, "cpu");
  volley::Result<volley::Plan> b = volley::Plan::forward(operands(4096, 128), {}, "cpu");
  volley::Result<volley::Plan> c = volley::Plan::forward(operands(4097, 128), {}, "cpu");
  if (!a || !b || !c) return 1;
  std::printf("--- equal problems give equal plans: %s; others do not: %s\n",
              *a == *b ? "yes" : "no", *a != *c ? "yes" : "no");
  return *a == *b && *a != *c ? 0 : 1;
}
