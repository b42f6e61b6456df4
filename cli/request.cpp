// SPDX-License-Identifier: BSD-3-Clause
//
// See request.h.
#include "request.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "call.h"
#include "cpu/contents.h"
#include "progress.h"

namespace volley::cli {
namespace {

using check::HostTensor;
using core::Role;

constexpr size_t kMostAxes = std::size(volley_tensor{}.shape);

size_t index(Role role) { return static_cast<size_t>(role); }

// Is this a tensor that a forward reads, and that a file may hold?
bool is_input(const core::RoleInfo& role) {
  return role.role <= Role::kVDescale && role.written == core::Written::kNever;
}

bool is_answer(const std::string& name) { return name == "o_model" || name == "lse"; }

void find_tensors(const SafetensorsFile& file, Request* request) {
  for (const core::RoleInfo& role : core::kRoles) {
    if (is_input(role)) request->stored[index(role.role)] = file.find(role.name);
  }
  if (const StoredTensor* both = file.find("cu_seqlens"); both != nullptr) {
    for (const Role role : {Role::kCuSeqlensQ, Role::kCuSeqlensK}) {
      if (request->stored[index(role)] != nullptr) {
        bad_input("the file has both 'cu_seqlens' and '{}'", core::info(role).name);
      }
      request->stored[index(role)] = both;
    }
  }
  for (const Role role : {Role::kQ, Role::kK, Role::kV}) {
    if (request->stored[index(role)] == nullptr) {
      bad_input("the file has no tensor '{}'", core::info(role).name);
    }
  }
  for (const StoredTensor& tensor : file.tensors()) {
    const bool used = std::any_of(request->stored.begin(), request->stored.end(),
                                  [&](const StoredTensor* stored) { return stored == &tensor; });
    if (used || is_answer(tensor.name)) continue;
    request->warnings.push_back(
        fmt::format("tensor '{}' is not used: attend knows no such input", printable(tensor.name)));
  }
}

// A contiguous view without data.
volley_tensor view_of(const char* name, int32_t dtype, const std::vector<int64_t>& shape) {
  if (shape.size() > kMostAxes) bad_input("tensor '{}' has {} axes", name, shape.size());
  volley_tensor view{};
  view.dtype = dtype;
  view.device_type = VOLLEY_DEVICE_CPU;
  view.ndim = static_cast<int32_t>(shape.size());
  int64_t next = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    view.shape[axis] = shape[axis];
    view.stride[axis] = next;
    if (__builtin_mul_overflow(next, std::max<int64_t>(shape[axis], 1), &next)) {
      bad_input("tensor '{}' would be too large", name);
    }
  }
  return view;
}

int32_t dtype_of(const char* name, const StoredTensor& stored) {
  if (stored.dtype != 0) return stored.dtype;
  // Many tools have no other type for a mask.
  if (stored.dtype_name == "U8" && stored.name == "mask") return VOLLEY_BOOL;
  bad_input("tensor '{}' has dtype {}, which attention has no use for", name, stored.dtype_name);
}

void describe_tensors(Request* request) {
  for (const core::RoleInfo& role : core::kRoles) {
    const StoredTensor* stored = request->stored[index(role.role)];
    if (stored == nullptr) continue;
    request->geometry[index(role.role)] =
        view_of(role.name, dtype_of(role.name, *stored), stored->shape);
  }
  const StoredTensor& q = *request->stored[index(Role::kQ)];
  const StoredTensor& v = *request->stored[index(Role::kV)];
  if ((q.shape.size() != 3 && q.shape.size() != 4) || v.shape.empty()) {
    bad_input("tensor 'q' has {} axes and 'v' {}; wanted (b, s, h, d), or (total, h, d) packed",
              q.shape.size(), v.shape.size());
  }
  std::vector<int64_t> o_shape = q.shape;
  o_shape.back() = v.shape.back();
  std::vector<int64_t> lse_shape(q.shape.begin(), q.shape.end() - 1);
  std::swap(lse_shape.end()[-1], lse_shape.end()[-2]);
  const int32_t o_dtype = q.dtype == VOLLEY_E4M3 ? VOLLEY_BF16 : q.dtype;
  request->geometry[index(Role::kO)] = view_of("o", o_dtype, o_shape);
  request->geometry[index(Role::kLse)] = view_of("lse", VOLLEY_F32, lse_shape);
}

const std::string* find(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

void read_metadata(const Metadata& metadata, volley_problem* options) {
  if (const std::string* causal = find(metadata, "causal"); causal != nullptr) {
    if (*causal != "true" && *causal != "false") {
      bad_input("metadata 'causal' is '{}'; wanted true or false", printable(*causal));
    }
    options->causal = *causal == "true" ? 1 : 0;
  }
  if (const std::string* scale = find(metadata, "scale"); scale != nullptr) {
    const char* end = scale->data() + scale->size();
    const auto [stop, error] = std::from_chars(scale->data(), end, options->scale);
    if (error != std::errc{} || stop != end) {
      bad_input("metadata 'scale' is '{}'; wanted a number", printable(*scale));
    }
  }
}

HostTensor read_tensor(const SafetensorsFile& file, const StoredTensor& stored, int32_t dtype) {
  HostTensor tensor(dtype, stored.shape);
  file.read(stored, {static_cast<std::byte*>(tensor.data()), stored.bytes});
  return tensor;
}

// The numbers of a length array, for the Case; the library judges them in load().
std::vector<int32_t> read_lengths(const SafetensorsFile& file, const Request& request, Role role) {
  const StoredTensor* stored = request.stored[index(role)];
  if (stored == nullptr) return {};
  if (stored->dtype != VOLLEY_I32 || stored->shape.size() != 1) {
    bad_input("tensor '{}' has dtype {} and {} axes; wanted I32 and 1", printable(stored->name),
              stored->dtype_name, stored->shape.size());
  }
  std::vector<int32_t> values(stored->bytes / sizeof(int32_t));
  file.read(*stored, std::as_writable_bytes(std::span(values)));
  return values;
}

// The longest sequence: what the plan needs to know of the lengths, which are not checked yet.
int64_t longest(const std::vector<int32_t>& cu, int64_t total) {
  int64_t most = 0;
  for (size_t n = 0; n + 1 < cu.size(); ++n) {
    most = std::max(most, int64_t{cu[n + 1]} - int64_t{cu[n]});
  }
  return std::min(most, total);
}

// The same call in the words of check/, whose naive program is the yardstick of the deviation. The
// geometry has been judged by a plan when anybody reads it.
void fill_case(Request* request) {
  check::Case& c = request->instance.c;
  const volley_problem& options = request->instance.options;
  const volley_tensor& q = request->geometry[index(Role::kQ)];
  const volley_tensor& k = request->geometry[index(Role::kK)];
  const volley_tensor& v = request->geometry[index(Role::kV)];
  c.dtype = q.dtype;
  c.b = c.cu_q.empty() ? q.shape[0] : static_cast<int64_t>(c.cu_q.size()) - 1;
  c.sq = q.shape[q.ndim - 3];
  c.hq = q.shape[q.ndim - 2];
  c.d = q.shape[q.ndim - 1];
  c.sk = k.ndim < 3 ? 0 : k.shape[k.ndim - 3];
  c.hk = k.ndim < 2 ? 0 : k.shape[k.ndim - 2];
  c.dv = v.shape[v.ndim - 1];
  const volley_tensor& table = request->geometry[index(Role::kPageTable)];
  c.page = table.ndim > 0 ? c.sk : 0;
  c.causal = options.causal != 0;
  c.left = options.window_left;
  c.right = options.window_right;
  c.alignment = options.mask_alignment;
  c.offset = options.mask_offset;
  c.scale = options.scale;
  c.softcap = options.softcap;
  c.sink = request->stored[index(Role::kSink)] != nullptr;
  c.alibi = request->stored[index(Role::kAlibiSlopes)] != nullptr;
}

void check_contents(const check::Instance& instance) {
  core::Problem problem;
  core::Buffers buffers;
  for (size_t role = 0; role < core::kRoleCount; ++role) {
    buffers.data[role] = instance.tensors[role].data();
  }
  core::Status status = core::make_problem(instance.problem(), &problem);
  if (status.ok()) status = core::check_contents(problem, buffers);
  if (!status.ok()) throw Error(exit_code_of(status.code), status.message);
}

HostTensor read_answer(const SafetensorsFile& file, const char* name, const HostTensor& like) {
  const StoredTensor* stored = file.find(name);
  if (stored == nullptr) return {};
  const bool floating = stored->dtype == VOLLEY_F64 || stored->dtype == VOLLEY_F32 ||
                        stored->dtype == VOLLEY_F16 || stored->dtype == VOLLEY_BF16;
  if (!floating || stored->shape != like.shape()) {
    bad_input("tensor '{}' is {} [{}]; wanted F64, F32, F16 or BF16 [{}]", name, stored->dtype_name,
              fmt::join(stored->shape, ", "), fmt::join(like.shape(), ", "));
  }
  return read_tensor(file, *stored, stored->dtype);
}

}  // namespace

void Request::place_on(int32_t device_type) {
  for (volley_tensor& view : geometry) view.device_type = device_type;
}

volley_problem Request::problem() const {
  volley_problem problem = instance.options;
  for (const core::RoleInfo& role : core::kRoles) {
    const volley_tensor& view = geometry[index(role.role)];
    if (view.dtype == 0) continue;
    auto* field = reinterpret_cast<char*>(&problem) + role.problem_offset;
    *reinterpret_cast<const volley_tensor**>(field) = &view;
  }
  return problem;
}

Request read_request(const SafetensorsFile& file, const ScoreFlags& flags) {
  Request request;
  find_tensors(file, &request);
  describe_tensors(&request);

  volley_problem& options = request.instance.options;
  volley_problem_init(&options);
  read_metadata(file.metadata(), &options);
  apply(flags, &options);

  check::Case& c = request.instance.c;
  c.cu_q = read_lengths(file, request, Role::kCuSeqlensQ);
  c.cu_k = read_lengths(file, request, Role::kCuSeqlensK);
  c.used_q = read_lengths(file, request, Role::kSequsedQ);
  c.used_k = read_lengths(file, request, Role::kSequsedK);
  fill_case(&request);
  if (!c.cu_q.empty()) options.max_seqlen_q = longest(c.cu_q, c.sq);
  if (!c.cu_k.empty()) options.max_seqlen_k = longest(c.cu_k, c.sk);
  return request;
}

void load(const SafetensorsFile& file, Request* request) {
  Progress progress("reading");
  check::Instance& instance = request->instance;
  for (const core::RoleInfo& role : core::kRoles) {
    const StoredTensor* stored = request->stored[index(role.role)];
    if (stored == nullptr) continue;
    progress.say(fmt::format("reading {}", role.name));
    instance[role.role] = read_tensor(file, *stored, request->geometry[index(role.role)].dtype);
  }
  for (const Role role : {Role::kO, Role::kLse}) {
    const volley_tensor& view = request->geometry[index(role)];
    instance[role] = HostTensor(view.dtype, {view.shape, view.shape + view.ndim});
  }
  check_contents(instance);
  request->o_answer = read_answer(file, "o_model", instance[Role::kO]);
  request->lse_answer = read_answer(file, "lse", instance[Role::kLse]);
}

}  // namespace volley::cli
