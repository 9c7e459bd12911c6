#include "model/memory_plan.hpp"

#include "tests/catch.hpp"
#include "tests/forward/fixture.hpp"

using namespace k3;

namespace {

constexpr std::uint64_t gb = 1'000'000'000;

// The released model, by its sizes: 113 GB of trunk, experts of 17.5 MB.
struct Released {
  checkpoint::Config config;
  MemoryRequest request;
  Released() {
    config.layers = 93;
    config.dense_layers = 1;
    config.is_kda.assign(93, true);
    for (std::size_t i = 3; i < 93; i += 4) config.is_kda[i] = false;
    config.hidden = 7168;
    config.latent = 3584;
    config.block_size = 12;
    config.kda_heads = config.mla_heads = 96;
    config.kda_head_dim = 128;
    config.nope_dim = 128;
    config.rope_dim = 64;
    config.v_dim = 128;
    config.kv_rank = 512;
    config.dense_inner = 33792;
    request.trunk = {.fixed = 2 * gb, .embedding = 2 * gb, .streamable = 109 * gb};
    request.trunk_slot_bytes = 17'000'000;
    request.expert_bytes = 17'547'264;
    request.experts = 92 * 896;
    request.experts_per_token = 16;
    request.context = 131072;
    request.chunk = 512;
    request.taken = gb / 4;
  }
};

std::uint64_t sum(const MemoryRequest& r, const MemoryPlan& p) { return r.taken + p.working + p.trunk + p.window + p.experts; }

}  // namespace

TEST_CASE("a plan keeps to its budget, whatever that is, and uses it") {
  Released model;
  std::size_t plans = 0;
  for (std::uint64_t budget = gb; budget < 2000 * gb; budget += budget / 16) {
    CAPTURE(budget);
    model.request.budget = budget;
    const auto plan = plan_memory(model.config, model.request);
    if (plan.has_error()) {
      CHECK(plans == 0);  // more memory never does harm
      continue;
    }
    ++plans;
    CHECK(sum(model.request, *plan) <= budget);
    CHECK(plan->trunk + plan->streamed + (plan->residency.whole ? 0 : 2 * gb) == model.request.trunk.all());
    CHECK(plan->experts >= model.request.expert_bytes);
    CHECK(plan->chunk >= 16);
    // Nothing is idle: the rest is less than would change anything, or everything has all it can use.
    const bool all = plan->experts == model.request.experts * model.request.expert_bytes;
    CHECK((all || sum(model.request, *plan) == budget));
  }
  CHECK(plans > 50);
}

TEST_CASE("states and activations come first, then the trunk, then experts") {
  Released model;
  model.request.budget = 128 * gb;
  auto plan = plan_memory(model.config, model.request).value();
  CHECK(plan.live_sequences == 2);
  CHECK(plan.chunk == 512);
  CHECK(plan.residency.whole);
  CHECK(plan.experts > 6 * gb);
  model.request.budget = 64 * gb;
  plan = plan_memory(model.config, model.request).value();
  CHECK(plan.live_sequences == 2);
  CHECK(plan.streamed > 50 * gb);
  CHECK(plan.experts == 16 * model.request.expert_bytes);
  model.request.budget = 8 * gb;
  plan = plan_memory(model.config, model.request).value();
  CHECK(plan.live_sequences == 1);
}

TEST_CASE("steps are as large as a tenth of memory allows, unless told") {
  Released model;
  model.request.chunk = 0;
  std::size_t before = 0;
  for (const std::uint64_t budget : {8 * gb, 16 * gb, 32 * gb, 64 * gb, 256 * gb}) {
    model.request.budget = budget;
    const auto plan = plan_memory(model.config, model.request).value();
    CHECK(plan.chunk >= before);
    const auto none = working_memory(model.config, model.request.context, 0, {}, plan.live_sequences);
    CHECK(plan.working - none <= budget / 10);
    before = plan.chunk;
  }
  CHECK(before == most_chunk);
  model.request.budget = 0;
  CHECK(plan_memory(model.config, model.request)->chunk == most_chunk);
}

TEST_CASE("what is too little is refused with the sum") {
  Released model;
  model.request.budget = 2 * gb;
  const auto plan = plan_memory(model.config, model.request);
  REQUIRE(plan.has_error());
  CHECK(plan.error().code == ErrorCode::out_of_memory);
  CHECK(plan.error().expected.find("at least") == 0);
  CHECK(plan.error().got == "2.00 GB");
}

TEST_CASE("a mapped trunk has its room, and what has none is not streamed") {
  Released model;
  model.request.mapped = true;
  model.request.budget = 200 * gb;
  const auto roomy = plan_memory(model.config, model.request);
  REQUIRE(roomy.has_value());
  CHECK((roomy->residency.whole && roomy->residency.mapped));
  CHECK(roomy->trunk == model.request.trunk.all());
  CHECK(roomy->paged == 0);
  CHECK(roomy->experts > 50 * gb);
  model.request.budget = 20 * gb;
  const auto tight = plan_memory(model.config, model.request);
  REQUIRE(tight.has_value());
  CHECK((tight->residency.whole && tight->residency.mapped));
  CHECK(tight->streamed == 0);
  CHECK(tight->window == 0);
  CHECK(tight->trunk + tight->paged == model.request.trunk.all());
  CHECK(sum(model.request, *tight) == model.request.budget);
  CHECK(tight->experts >= 16 * model.request.expert_bytes);
  model.request.budget = 2 * gb;
  CHECK(plan_memory(model.config, model.request).has_error());
}

TEST_CASE("no budget is no limit, and --expert-gb is kept to") {
  Released model;
  auto plan = plan_memory(model.config, model.request).value();
  CHECK(plan.residency.whole);
  CHECK(plan.experts == model.request.experts * model.request.expert_bytes);
  model.request.budget = 128 * gb;
  model.request.expert_budget = 3 * gb;
  plan = plan_memory(model.config, model.request).value();
  CHECK(plan.experts == 3 * gb);
  CHECK(sum(model.request, plan) <= 128 * gb);
}
