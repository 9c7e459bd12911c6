#include "tools/bench_cases.hpp"

#include <algorithm>

#include "model/machine_memory.hpp"
#include "tools/bench_products.hpp"

namespace k3::cli {
namespace {

enum class Needs { mxfp4, int8, int4, bf16, floats };

struct Kind {
  std::string_view name;
  Needs needs;
  bool one_row;  // has no batch to speak of
  BenchCase (*make)(const BenchSetup&, BenchData&, std::size_t rows);
};

constexpr Kind kinds[] = {
    {"mxfp4_expert", Needs::mxfp4, false, mxfp4_expert_case},
    {"int8", Needs::int8, false, int8_case},
    {"int4", Needs::int4, false, int4_case},
    {"bf16", Needs::bf16, false, bf16_case},
    {"exact_mxfp4", Needs::mxfp4, false, exact_mxfp4_case},
    {"exact_bf16", Needs::bf16, false, exact_bf16_case},
    {"kda_step", Needs::floats, true, kda_step_case},
    {"mla_decode", Needs::floats, true, mla_decode_case},
};

constexpr std::size_t mxfp4_scale_part = 16, int4_scale_part = 8;  // bytes of codes for one byte of scales

bool wanted(const BenchSetup& setup, const Kind& kind) {
  return setup.names.empty() || std::find(setup.names.begin(), setup.names.end(), kind.name) != setup.names.end();
}

Result<void> fits(const BenchSetup& setup, bool codes, bool bf16, bool floats) {
  const std::uint64_t needed = setup.memory * (std::uint64_t{codes} * 5 + std::uint64_t{bf16} * 4 + std::uint64_t{floats} * 4) / 4,
                      available = available_memory();
  if (available == 0 || needed < available) return {};
  Error error = fail(ErrorCode::out_of_memory, "too little memory for weights that no cache holds (--quick takes a quarter)");
  error.expected = std::to_string(needed) + " bytes";
  error.got = std::to_string(available) + " bytes";
  return error;
}

Result<void> make_scales(const BenchSetup& setup, std::size_t part, Fill what, BenchMemory& out) {
  auto memory = BenchMemory::make(setup.memory / part);
  if (memory.has_error()) return memory.error();
  out = std::move(*memory);
  fill(*setup.pool, out, what);
  return {};
}

Result<void> make_data(const BenchSetup& setup, BenchData& data) {
  const auto any = [&](Needs needs) {
    return std::any_of(std::begin(kinds), std::end(kinds),
                       [&](const Kind& kind) { return kind.needs == needs && wanted(setup, kind); });
  };
  const bool codes = any(Needs::mxfp4) || any(Needs::int8) || any(Needs::int4);
  Result<void> done = fits(setup, codes, any(Needs::bf16), any(Needs::floats));
  if (done && codes) done = data.codes.make(*setup.pool, setup.memory, Fill::codes);
  if (done && any(Needs::mxfp4)) done = make_scales(setup, mxfp4_scale_part, Fill::mxfp4_scales, data.mxfp4_scales);
  if (done && any(Needs::int4)) done = make_scales(setup, int4_scale_part, Fill::small_scales, data.int4_scales);
  if (done && any(Needs::bf16)) done = data.bf16.make(*setup.pool, setup.memory, Fill::bf16);
  if (done && any(Needs::floats)) done = data.floats.make(*setup.pool, setup.memory, Fill::floats);
  return done;
}

}  // namespace

std::vector<std::string_view> bench_case_names() {
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds) names.push_back(kind.name);
  return names;
}

Result<void> ColdMemory::make(ComputePool& pool, std::size_t bytes, Fill what) {
  auto memory = BenchMemory::make(bytes);
  if (memory.has_error()) return memory.error();
  memory_ = std::move(*memory);
  fill(pool, memory_, what);
  return {};
}

std::byte* ColdMemory::next(std::size_t bytes) {
  if (at_ + bytes > memory_.bytes()) at_ = 0;
  std::byte* const piece = memory_.data() + at_;
  at_ += bytes;
  return piece;
}

const BenchMemory& BenchData::any() const {
  for (const ColdMemory* memory : {&codes, &bf16}) {
    if (!memory->empty()) return memory->memory();
  }
  return floats.memory();
}

Result<std::vector<BenchCase>> make_bench_cases(const BenchSetup& setup, BenchData& data) {
  if (auto made = make_data(setup, data); made.has_error()) return made.error();
  std::vector<BenchCase> cases;
  for (const Kind& kind : kinds) {
    if (!wanted(setup, kind)) continue;
    if (kind.one_row) {
      cases.push_back(kind.make(setup, data, 1));
      cases.back().name = kind.name;
      continue;
    }
    for (const std::size_t rows : setup.rows) {
      cases.push_back(kind.make(setup, data, rows));
      cases.back().name = kind.name;
    }
  }
  return cases;
}

}  // namespace k3::cli
