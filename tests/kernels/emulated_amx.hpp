// A tier of the tests: everything of amx but its instructions.
#pragma once

#include "kernels/kernels.hpp"

namespace k3::kernels::test {

extern const Table emulated_amx_table;  // for machines that run the tier avx512

}  // namespace k3::kernels::test
