// SPDX-License-Identifier: BSD-3-Clause
//
// volley.hpp alone, as C++17 with -pedantic -Werror, and its types' promises.
#include <volley/volley.hpp>

#include <type_traits>

static_assert(std::is_nothrow_move_constructible_v<volley::Plan>);
static_assert(!std::is_copy_constructible_v<volley::Plan>);
static_assert(std::is_trivially_copyable_v<volley::Tensor>);
static_assert(sizeof(volley::Tensor) == sizeof(volley_tensor));
static_assert(sizeof(volley::bf16) == 2 && sizeof(volley::f16) == 2 && sizeof(volley::e4m3) == 1);
static_assert(volley::dtype<const volley::bf16> == VOLLEY_BF16);
