#include "model/layers/latent_moe.hpp"

#include <algorithm>

namespace k3::layers {

namespace {

// Router scores, each row's choice, and the list of experts the batch needs.
bool route(const Compute& compute, const MoeStep& step, MoeScratch& s) {
  const std::size_t experts = compute.config.experts;
  s.scores.resize(step.rows * experts);
  if (!compute.multiply(step.weights.router, step.x, step.rows, s.scores.data())) return false;
  compute.kernels.sigmoid(s.scores.data(), s.scores.size(), s.scores.data());
  if (s.choices.size() < step.rows) s.choices.resize(step.rows);
  s.wanted.clear();
  for (std::size_t row = 0; row < step.rows; ++row) {
    choose_experts({&s.scores[row * experts], experts}, step.weights.router_bias, compute.config.experts_per_token,
                   compute.config.routed_scaling, step.expert_top_p, s.choices[row]);
    for (const Choice& choice : s.choices[row]) s.wanted.push_back({static_cast<std::uint32_t>(step.layer), choice.expert});
  }
  std::sort(s.wanted.begin(), s.wanted.end());
  s.wanted.erase(std::unique(s.wanted.begin(), s.wanted.end()), s.wanted.end());
  return true;
}

void find_users(const MoeStep& step, std::uint32_t expert, MoeScratch& s) {
  s.users.clear();
  for (std::size_t row = 0; row < step.rows; ++row) {
    const auto& chosen = s.choices[row];
    const auto it =
        std::lower_bound(chosen.begin(), chosen.end(), expert, [](const Choice& c, std::uint32_t e) { return c.expert < e; });
    if (it != chosen.end() && it->expert == expert) s.users.emplace_back(row, it->weight);
  }
}

// sum[row] += weight * w2 . situ(w1 . z, w3 . z) over the rows that chose this expert.
bool run_expert(const Compute& compute, const experts::ExpertBytes& expert, MoeScratch& s) {
  const std::size_t latent = compute.config.latent, inner = compute.config.expert_inner, rows = s.users.size();
  s.gathered.resize(rows * latent);
  s.gate.resize(rows * inner);
  s.up.resize(rows * inner);
  s.expert_out.resize(rows * latent);
  for (std::size_t i = 0; i < rows; ++i) std::copy_n(&s.latent[s.users[i].first * latent], latent, &s.gathered[i * latent]);
  const bool inner_done =
      compute.multiply_mxfp4(expert.w1, expert.w1_scale, inner, latent, s.gathered.data(), rows, s.gate.data()) &&
      compute.multiply_mxfp4(expert.w3, expert.w3_scale, inner, latent, s.gathered.data(), rows, s.up.data());
  if (!inner_done) return false;
  for (std::size_t i = 0; i < rows; ++i) {
    float* gate = &s.gate[i * inner];
    compute.kernels.situ(gate, &s.up[i * inner], inner, compute.config.situ_beta, compute.config.situ_linear_beta, gate);
  }
  if (!compute.multiply_mxfp4(expert.w2, expert.w2_scale, latent, inner, s.gate.data(), rows, s.expert_out.data())) return false;
  for (std::size_t i = 0; i < rows; ++i) {
    compute.kernels.axpy(s.users[i].second, &s.expert_out[i * latent], latent, &s.sum[s.users[i].first * latent]);
  }
  return true;
}

// What needs no expert: done while their bytes travel.
bool run_shared(const Compute& compute, const MoeStep& step, MoeScratch& s) {
  s.latent.resize(step.rows * compute.config.latent);
  s.shared.resize(step.rows * compute.config.hidden);
  if (!compute.multiply(step.weights.down, step.x, step.rows, s.latent.data())) return false;
  step.stream.reap();
  return dense_mlp(compute, step.weights.shared, step.x, step.rows, s.mlp, s.shared.data());
}

bool finish(const Compute& compute, const MoeStep& step, MoeScratch& s) {
  const std::size_t latent = compute.config.latent;
  const auto norm = [&](std::size_t row) {
    float* u = &s.sum[row * latent];
    compute.kernels.rms_norm(u, step.weights.norm.data(), latent, compute.config.rms_eps, u);
  };
  if (!compute.each_row(step.rows, norm) || !compute.multiply(step.weights.up, s.sum.data(), step.rows, step.out)) return false;
  compute.kernels.add(s.shared.data(), s.shared.size(), step.out);
  return true;
}

}  // namespace

boost::asio::awaitable<bool> latent_moe(const Compute& compute, const MoeStep& step, MoeScratch& s) {
  if (!route(compute, step, s)) co_return false;
  step.stream.request(s.wanted);
  if (!run_shared(compute, step, s)) co_return false;
  s.sum.assign(step.rows * compute.config.latent, 0.0F);
  for (const experts::ExpertKey key : s.wanted) {
    if (!step.between_experts()) co_return false;
    find_users(step, key.expert, s);
    Result<experts::Lease> lease = co_await step.stream.acquire(key, step.stop);
    if (!lease) {
      if (lease.error().code == ErrorCode::cancelled) co_return false;
      for (const auto& [row, weight] : s.users) step.row_errors[row] = lease.error();
      continue;
    }
    if (!run_expert(compute, lease->bytes(), s)) co_return false;
    step.stream.reap();
  }
  co_return finish(compute, step, s);
}

}  // namespace k3::layers
