// Products and attention at the released size; each makes one BenchCase. bench_cases.hpp says what of.
#pragma once

#include "tools/bench_cases.hpp"

namespace k3::cli {

BenchCase mxfp4_expert_case(const BenchSetup& setup, BenchData& data, std::size_t rows);
BenchCase exact_mxfp4_case(const BenchSetup& setup, BenchData& data, std::size_t rows);
BenchCase int8_case(const BenchSetup& setup, BenchData& data, std::size_t rows);
BenchCase int4_case(const BenchSetup& setup, BenchData& data, std::size_t rows);
BenchCase bf16_case(const BenchSetup& setup, BenchData& data, std::size_t rows);
BenchCase exact_bf16_case(const BenchSetup& setup, BenchData& data, std::size_t rows);
// One token, whatever the rows.
BenchCase kda_step_case(const BenchSetup& setup, BenchData& data, std::size_t rows);
BenchCase mla_decode_case(const BenchSetup& setup, BenchData& data, std::size_t rows);

// Activations: uniform in -size..size, the same in each run.
std::vector<float> bench_activations(std::size_t count, float size);

}  // namespace k3::cli
