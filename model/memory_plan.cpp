#include "model/memory_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace k3 {

namespace {

constexpr std::uint64_t mb = 1'000'000;
// For blocks of the trunk on their way; two blocks would do.
constexpr std::uint64_t comfortable_window = 512 * mb;
constexpr std::size_t least_chunk = 16;

std::string size(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes < 1000 * mb ? fmt::format("{:.1f} MB", value / 1e6) : fmt::format("{:.2f} GB", value / 1e9);
}

// How much room is asked for what can be had in any amount.
struct Ease {
  std::size_t sequences, chunk;
  std::uint64_t window, experts;
};

std::size_t usual_chunk(const checkpoint::Config& config, const MemoryRequest& r) {
  if (r.chunk != 0) return r.chunk;
  if (r.budget == 0) return most_chunk;
  const std::uint64_t row = working_memory(config, r.context, 1, r.latents, 0) - working_memory(config, r.context, 0, r.latents, 0);
  std::size_t chunk = most_chunk;
  while (chunk > least_chunk && chunk * row > r.budget / 10) chunk /= 2;
  return chunk;
}

// From comfortable to the least. A smaller chunk makes prompts slower, one conversation fewer makes side requests start from
// nothing; both are better than no answer. Experts of a layer that cannot all be on their way come last.
std::vector<Ease> eases(const checkpoint::Config& config, const MemoryRequest& r) {
  const std::uint64_t least_window = 2 * r.trunk_slot_bytes;
  // A token's experts of one layer, so that all of them can be on their way at once; one would do.
  std::uint64_t experts = std::max(r.expert_bytes, std::min(r.experts_per_token, r.experts) * r.expert_bytes);
  std::uint64_t window = std::max(least_window, comfortable_window);
  std::size_t chunk = usual_chunk(config, r);
  std::vector<Ease> out;
  for (std::size_t sequences = r.sequences; sequences > 0; --sequences) out.push_back({sequences, chunk, window, experts});
  while (chunk > least_chunk || window > least_window) {
    chunk = std::max(std::min(chunk, least_chunk), chunk / 2);
    window = std::max(least_window, window / 2);
    out.push_back({1, chunk, window, experts});
  }
  while (experts > r.expert_bytes) {
    experts = std::max(r.expert_bytes, experts / 2);
    out.push_back({1, chunk, window, experts});
  }
  return out;
}

// nullopt: it takes more room than there is.
std::optional<MemoryPlan> divide(const checkpoint::Config& config, const MemoryRequest& r, const Ease& ease) {
  MemoryPlan plan;
  plan.chunk = ease.chunk;
  plan.live_sequences = ease.sequences;
  plan.working = working_memory(config, r.context, ease.chunk, r.latents, ease.sequences);
  const std::uint64_t all_experts = r.experts * r.expert_bytes;
  const std::uint64_t experts = std::min(r.expert_budget.value_or(ease.experts), all_experts);
  const std::uint64_t before = r.taken + plan.working + experts;
  plan.residency.mapped = r.mapped;
  if (r.budget == 0 || before + r.trunk.all() <= r.budget) {
    plan.trunk = r.trunk.all();
    const std::uint64_t rest = r.budget == 0 ? all_experts : r.budget - before - r.trunk.all();
    plan.experts = r.expert_budget ? experts : std::min(experts + rest, all_experts);
    return plan;
  }
  if (r.mapped) {
    if (before + r.trunk.fixed > r.budget) return std::nullopt;
    plan.trunk = r.budget - before;
    plan.paged = r.trunk.all() - plan.trunk;
    plan.experts = experts;
    return plan;
  }
  const std::uint64_t least = before + r.trunk.fixed + std::min(ease.window, r.trunk.streamable);
  if (least > r.budget) return std::nullopt;
  plan.residency = {.whole = false, .streamable = std::min(r.budget - least, r.trunk.streamable)};
  plan.trunk = r.trunk.fixed + plan.residency.streamable;
  plan.streamed = r.trunk.streamable - plan.residency.streamable;
  plan.window = plan.streamed == 0 ? 0 : std::min(ease.window, plan.streamed);
  const std::uint64_t rest = r.budget - before - plan.trunk - plan.window;  // the embedding alone did not fit
  plan.experts = r.expert_budget ? experts : std::min(experts + rest, all_experts);
  return plan;
}

}  // namespace

std::uint64_t working_memory(const checkpoint::Config& c, std::size_t context, std::size_t chunk, LatentFormat latents,
                             std::size_t sequences) {
  const auto kda_layers = static_cast<std::uint64_t>(std::count(c.is_kda.begin(), c.is_kda.end(), true));
  const std::uint64_t mla_layers = c.layers - kda_layers;
  // Two buffers a KDA layer. The MLA cache grows with use; a conversation beyond 32k tokens is planned for when somebody has one.
  const std::uint64_t kda = 2 * kda_layers * (c.kda_width() * c.kda_head_dim + 9 * c.kda_width()) * sizeof(float);
  const std::uint64_t mla = mla_layers * std::min<std::uint64_t>(context, 32768) * c.mla_cache_width() * latent_bytes(latents);
  // A row: the residual stream with its snapshots and temporaries, five projections of attention, the experts' sums, dense or
  // shared inner.
  const std::uint64_t blocks = c.layers / std::max<std::size_t>(1, c.block_size) + 1;
  const std::uint64_t attention =
      std::max(5 * c.kda_width(), c.mla_heads * (2 * c.nope_dim + 2 * c.rope_dim + 3 * c.v_dim + c.kv_rank));
  const std::uint64_t row =
      (c.hidden * (blocks + 6) + attention + 8 * c.latent + 3 * std::max(c.dense_inner, c.shared_inner())) * sizeof(float);
  return sequences * (kda + mla) + chunk * row + 256 * mb;
}

std::string MemoryPlan::describe() const {
  std::string text =
      fmt::format("memory plan: {} conversation{} and steps of {} tokens {}, {}trunk {}", live_sequences,
                  live_sequences == 1 ? "" : "s", chunk, size(working), residency.mapped ? "mapped " : "", size(trunk));
  if (paged > 0) text += fmt::format(" and {} for which there is no room", size(paged));
  if (streamed > 0) text += fmt::format(" and {} read for each step through {}", size(streamed), size(window));
  return text + fmt::format(", experts {}", size(experts));
}

Result<MemoryPlan> plan_memory(const checkpoint::Config& config, const MemoryRequest& r) {
  const std::vector<Ease> tries = eases(config, r);
  for (const Ease& ease : tries) {
    if (auto plan = divide(config, r, ease)) return *plan;
  }
  const Ease& least = tries.back();
  const std::uint64_t working = working_memory(config, r.context, least.chunk, r.latents, least.sequences);
  const std::uint64_t window = r.mapped ? 0 : std::min(least.window, r.trunk.streamable),
                      experts = r.expert_budget.value_or(least.experts);
  const std::uint64_t fixed = r.trunk.fixed, all = r.taken + working + fixed + window + experts;
  Error error = fail(ErrorCode::out_of_memory,
                     fmt::format("the model does not fit: the program itself takes {}, one conversation and steps of {} tokens {}, "
                                 "the part of the trunk that cannot be read as it goes {}, a window for the rest {}, experts {}. "
                                 "More memory (--ram-gb), a shorter --max-context or --latent-cache bf16 help; so does a "
                                 "container made by `k3 repack`, whose rounded weights can be read as they are",
                                 size(r.taken), least.chunk, size(working), size(fixed), size(window), size(experts)));
  error.expected = "at least " + size(all);
  error.got = size(r.budget);
  return error;
}

}  // namespace k3
