// AVX-512 with VNNI.
#include "kernels/avx512_lanes.hpp"
#include "kernels/avx512_outputs.hpp"
#include "kernels/tiers.hpp"

namespace k3::kernels {

constinit const Table avx512_table = make_table<Avx512, Avx512Outputs>("avx512");

}  // namespace k3::kernels
