/* SPDX-License-Identifier: BSD-3-Clause
 *
 * volley.h alone, as C99 with -pedantic -Werror. The frozen struct keeps its size: a change here is
 * a change of the ABI.
 */
#include <volley/volley.h>

typedef char tensor_is_frozen[sizeof(volley_tensor) == 8 + 16 + 80 + 16 ? 1 : -1];
typedef char error_is_frozen[sizeof(volley_error) == 8 + 512 ? 1 : -1];

int32_t header_c99(const volley_problem* problem, tensor_is_frozen* a, error_is_frozen* b) {
  (void)a;
  (void)b;
  return problem->op;
}
