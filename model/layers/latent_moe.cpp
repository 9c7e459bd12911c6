#include "model/layers/latent_moe.hpp"

#include <algorithm>

namespace k3::layers {

namespace {

// Gathered rows of a wave, at most, unless one expert alone has more: 256 rows of the released widths take 10 MB.
constexpr std::size_t wave_rows = 256;

// Of a prompt the last tokens say most about what comes next: each counts a fifth of the one after it. So a long prompt, in which
// every expert is somebody's, leaves those in memory that its end used, and what others use.
void weigh(const MoeStep& step, std::size_t experts, MoeScratch& s) {
  constexpr float fading = 0.2F;
  constexpr std::size_t rows_that_count = 16;
  s.worth.assign(experts, 0.0F);
  for (const RowGroup& group : step.groups) {
    float share = 1;
    for (std::size_t i = 0; i < std::min(group.count, rows_that_count); ++i, share *= fading) {
      add_worth(s.choices[group.first + group.count - 1 - i], share, s.worth);
    }
  }
  s.wanted_worth.clear();
  for (const experts::ExpertKey& key : s.wanted) s.wanted_worth.push_back(s.worth[key.expert]);
}

// Turns each row's choices into each expert's rows, and lists the experts that have any.
void list_users(const MoeStep& step, std::size_t experts, MoeScratch& s) {
  s.first_user.assign(experts + 1, 0);
  for (std::size_t row = 0; row < step.x.rows(); ++row) {
    for (const Choice& choice : s.choices[row]) ++s.first_user[choice.expert + 1];
  }
  s.wanted.clear();
  for (std::uint32_t e = 0; e < experts; ++e) {
    if (s.first_user[e + 1] != 0) s.wanted.push_back({static_cast<std::uint32_t>(step.layer), e});
    s.first_user[e + 1] += s.first_user[e];
  }
  s.users.resize(s.first_user[experts]);
  s.next_user.assign(s.first_user.begin(), s.first_user.end());
  for (std::size_t row = 0; row < step.x.rows(); ++row) {
    for (const Choice& choice : s.choices[row]) s.users[s.next_user[choice.expert]++] = {row, choice.weight};
  }
}

// Router scores, each row's choice, and the list of experts the batch needs.
bool route(const Compute& compute, const MoeStep& step, MoeScratch& s) {
  const std::size_t experts = compute.config.experts, rows = step.x.rows();
  if (!score_experts(compute, step.weights.router, step.x, s.scores)) return false;
  if (s.choices.size() < rows) s.choices.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    choose_experts({&s.scores[row * experts], experts}, step.weights.router_bias, compute.config.experts_per_token,
                   compute.config.routed_scaling, step.expert_top_p, s.choices[row]);
  }
  step.chosen(std::span(s.choices).first(rows));
  list_users(step, experts, s);
  weigh(step, experts, s);
  return true;
}

std::span<const ExpertWave::User> users_of(std::uint32_t expert, const MoeScratch& s) {
  return {&s.users[s.first_user[expert]], s.first_user[expert + 1] - s.first_user[expert]};
}

// What needs no expert: done while their bytes travel.
bool run_shared(const Compute& compute, const MoeStep& step, MoeScratch& s) {
  s.latent.resize(step.x.rows() * compute.config.latent);
  s.shared.resize(step.x.rows() * compute.config.hidden);
  if (!compute.multiply(step.weights.down, step.x, s.latent.data())) return false;
  s.latent_input.set(s.latent.data(), step.x.rows(), compute.config.latent);
  if (!compute.prepare_mxfp4(s.latent_input)) return false;
  step.stream.reap();
  return dense_mlp(compute, step.weights.shared, step.x, s.mlp, s.shared.data());
}

bool finish(const Compute& compute, const MoeStep& step, MoeScratch& s) {
  const std::size_t latent = compute.config.latent, rows = step.x.rows();
  const auto norm = [&](std::size_t row) {
    float* u = &s.sum[row * latent];
    compute.kernels.rms_norm(u, step.weights.norm.data(), latent, compute.config.rms_eps, u);
  };
  if (!compute.each_row(rows, norm)) return false;
  s.sum_input.set(s.sum.data(), rows, latent);
  if (!compute.multiply(step.weights.up, s.sum_input, step.out)) return false;
  compute.kernels.add(s.shared.data(), s.shared.size(), step.out);
  return true;
}

// However the layer ends: a lease kept is a slot lost, and none may outlive the stream.
struct ClearWave {
  ExpertWave& wave;
  ~ClearWave() { wave.clear(); }
};

}  // namespace

boost::asio::awaitable<bool> latent_moe(const Compute& compute, const MoeStep& step, MoeScratch& s) {
  if (!route(compute, step, s)) co_return false;
  const std::uint64_t read_before = step.stream.counters().misses;
  step.stream.request(s.wanted, s.wanted_worth);
  step.times.enter(StepTimes::Phase::overlapped);
  if (!run_shared(compute, step, s)) co_return false;
  if (!step.while_travelling()) co_return false;
  s.sum.assign(step.x.rows() * compute.config.latent, 0.0F);
  const ClearWave clear{s.wave};
  for (std::size_t i = 0; i < s.wanted.size();) {
    // A wave: one expert, waited for, and those after it that have arrived meanwhile.
    s.wave.clear();
    do {
      const experts::ExpertKey key = s.wanted[i++];
      const auto users = users_of(key.expert, s);
      if (!step.between_experts()) co_return false;
      if (!step.stream.ready(key)) step.times.enter(StepTimes::Phase::waiting);
      Result<experts::Lease> lease = co_await step.stream.acquire(key, step.stop);
      step.times.enter(StepTimes::Phase::overlapped);
      if (lease) {
        s.wave.parts.push_back({std::move(*lease), s.wave.users.size(), users.size()});
        s.wave.users.insert(s.wave.users.end(), users.begin(), users.end());
        continue;
      }
      if (lease.error().code == ErrorCode::cancelled) co_return false;
      for (const ExpertWave::User& user : users) step.row_errors[user.row] = lease.error();
    } while (i < s.wanted.size() && s.wave.users.size() < wave_rows && step.stream.ready(s.wanted[i]));
    if (!run_wave(compute, s.latent_input, s.wave, s.sum.data())) co_return false;
    s.wave.clear();  // their slots are free again
    step.stream.reap();
  }
  step.times.read(step.stream.counters().misses - read_before);
  co_return finish(compute, step, s);
}

}  // namespace k3::layers
