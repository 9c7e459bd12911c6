#include "model/forward.hpp"

#include <algorithm>
#include <cassert>

#include "model/layers/attention_residual.hpp"
#include "model/layers/kda.hpp"
#include "model/layers/latent_moe.hpp"
#include "model/layers/mla.hpp"
#include "model/trunk/trunk_source.hpp"

namespace k3 {

using boost::asio::awaitable;

struct Forward::Impl {
  ForwardContext context;
  CancellationPoints points;
  layers::StepTimes times;
  std::function<void()> hook;

  layers::ResidualStream stream;
  layers::KdaScratch kda;
  layers::MlaScratch mla;
  layers::MlpScratch mlp;
  layers::MoeScratch moe;
  std::vector<float> x, y, final_hidden, logits;
  layers::Activations input;
  std::vector<layers::RowGroup> groups;
  std::vector<std::optional<Error>> row_errors;
  std::unique_ptr<trunk::TrunkSource> trunk;  // made by the first step, on its thread; nullptr: all is in memory
  std::optional<Error> trunk_error;
  layers::Prediction prediction;

  bool go_on(std::uint64_t& counter, const std::stop_token& stop) {
    ++counter;
    if (hook) hook();
    return !stop.stop_requested();
  }
  void norm_rows(const layers::Compute& compute, const checkpoint::Vector& weights, std::size_t rows, float* values) const;
  Result<void> open_trunk();
  bool embed(std::span<const Row> rows, std::span<const float> inject);
  bool attention(const layers::Compute& compute, const checkpoint::LayerWeights& layer, std::size_t kda_index,
                 std::size_t mla_index, std::size_t rows);
  awaitable<bool> feed_forward(const layers::Compute& compute, std::size_t layer, std::span<const Row> rows,
                               const std::stop_token& stop, const StepHooks& hooks);
  bool predicting(std::size_t rows) const;
  bool predict(const layers::Compute& compute, std::size_t layer, std::size_t rows);
  bool head(const layers::Compute& compute, std::span<const Row> rows);
  Error why() const { return trunk_error ? *trunk_error : fail(ErrorCode::cancelled, "the request was cancelled"); }
};

namespace {

constexpr std::size_t few_rows = 4;
// Two keep the drive busy between one's end and the next one's start; each more is one more that a wrong guess keeps it from work.
constexpr std::size_t guesses_at_once = 2;

void group_rows(std::span<const Row> rows, std::vector<layers::RowGroup>& groups) {
  groups.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (groups.empty() || groups.back().sequence != rows[i].sequence) {
      for ([[maybe_unused]] const auto& group : groups)
        assert(group.sequence != rows[i].sequence && "a sequence's rows stand together");
      groups.push_back({rows[i].sequence, i, 0});
    }
    ++groups.back().count;
  }
}

}  // namespace

void Forward::Impl::norm_rows(const layers::Compute& compute, const checkpoint::Vector& weights, std::size_t rows,
                              float* values) const {
  const std::size_t hidden = context.config->hidden;
  for (std::size_t row = 0; row < rows; ++row) {
    float* v = values + row * hidden;
    compute.kernels.rms_norm(v, weights.data(), hidden, context.config->rms_eps, v);
  }
}

Result<void> Forward::Impl::open_trunk() {
  trunk_error.reset();
  if (context.weights->streamed.empty() && !context.weights->streamed_embedding) return {};
  if (trunk) return {};
  auto source = trunk::TrunkSource::open(*context.checkpoint, *context.weights, context.trunk);
  if (source.has_error()) return source.error();
  trunk = std::move(*source);
  return {};
}

bool Forward::Impl::embed(std::span<const Row> rows, std::span<const float> inject) {
  const std::size_t hidden = context.config->hidden;
  if (!inject.empty()) {
    assert(inject.size() == rows.size() * hidden);
    std::copy(inject.begin(), inject.end(), stream.running_sum.begin());
    return true;
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    assert(rows[row].token >= 0 && static_cast<std::size_t>(rows[row].token) < context.config->vocabulary);
    const auto token = static_cast<std::size_t>(rows[row].token);
    const std::uint16_t* embedding = nullptr;
    if (context.weights->streamed_embedding) {
      const auto read = trunk->embedding_row(token);
      if (read.has_error()) return trunk_error = read.error(), false;
      embedding = *read;
    } else {
      embedding = context.weights->embedding.bf16() + token * hidden;
    }
    context.kernels->widen_bf16(embedding, hidden, &stream.running_sum[row * hidden]);
  }
  return true;
}

bool Forward::Impl::attention(const layers::Compute& compute, const checkpoint::LayerWeights& layer, std::size_t kda_index,
                              std::size_t mla_index, std::size_t rows) {
  norm_rows(compute, layer.input_norm, rows, x.data());
  input.set(x.data(), rows, context.config->hidden);
  if (const auto* kda_weights = std::get_if<checkpoint::KdaWeights>(&layer.attention)) {
    return layers::kda(compute, *kda_weights, kda_index, groups, input, kda, y.data());
  }
  return layers::mla(compute, std::get<checkpoint::MlaWeights>(layer.attention), mla_index, groups, input, mla, y.data());
}

// Only where experts come from the drive and leave it time: a long prompt needs nearly all of them anyway, and where the trunk
// comes from the drive too, that never rests.
bool Forward::Impl::predicting(std::size_t rows) const {
  const checkpoint::Config& config = *context.config;
  if (context.predict == PredictionMode::off || rows > few_rows || !context.weights->streamed.empty()) return false;
  return context.experts->slots() < (config.layers - config.dense_layers) * config.experts;
}

bool Forward::Impl::predict(const layers::Compute& compute, std::size_t layer, std::size_t rows) {
  if (!predicting(rows) || layer >= context.weights->layers.size()) return true;
  const auto likely = prediction.predict(compute, stream, context.weights->layers[layer], layer, rows);
  if (!likely) return false;
  if (context.predict == PredictionMode::on) context.experts->guess(*likely, guesses_at_once);
  return true;
}

awaitable<bool> Forward::Impl::feed_forward(const layers::Compute& compute, std::size_t layer, std::span<const Row> rows,
                                            const std::stop_token& stop, const StepHooks& hooks) {
  const checkpoint::LayerWeights& weights = context.weights->layers[layer];
  norm_rows(compute, weights.post_attention_norm, rows.size(), x.data());
  input.set(x.data(), rows.size(), context.config->hidden);
  if (const auto* dense = std::get_if<checkpoint::MlpWeights>(&weights.mlp)) {
    co_return layers::dense_mlp(compute, *dense, input, mlp, y.data());
  }
  const auto between_experts = [&] { return go_on(points.experts, stop); };
  const auto chosen = [&](std::span<std::vector<layers::Choice>> choices) {
    if (hooks.after_router) hooks.after_router(layer, choices);
    if (predicting(rows.size())) prediction.judge(layer, choices);
  };
  const auto while_travelling = [&] { return predict(compute, layer + 1, rows.size()); };
  const layers::MoeStep step{std::get<checkpoint::MoeWeights>(weights.mlp),
                             layer,
                             input,
                             groups,
                             context.expert_top_p,
                             *context.experts,
                             stop,
                             between_experts,
                             chosen,
                             while_travelling,
                             row_errors,
                             times,
                             y.data()};
  const bool done = co_await layers::latent_moe(compute, step, moe);
  co_return done;
}

// Final mix, norm and head, for the rows whose logits are wanted.
bool Forward::Impl::head(const layers::Compute& compute, std::span<const Row> rows) {
  const std::size_t hidden = context.config->hidden;
  std::size_t wanted = 0;
  logits.clear();
  if (std::none_of(rows.begin(), rows.end(), [](const Row& row) { return row.wants_logits; })) return true;
  if (!layers::mix(compute, stream, context.weights->output_residual, rows.size(), x.data())) return false;
  final_hidden.resize(rows.size() * hidden);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].wants_logits) std::copy_n(&x[row * hidden], hidden, &final_hidden[wanted++ * hidden]);
  }
  logits.resize(wanted * context.config->vocabulary);
  norm_rows(compute, context.weights->final_norm, wanted, final_hidden.data());
  input.set(final_hidden.data(), wanted, hidden);
  return compute.multiply(context.weights->head, input, logits.data());
}

Forward::Forward(const ForwardContext& context) : impl_(std::make_unique<Impl>()) {
  impl_->context = context;
  impl_->times = layers::StepTimes(context.clock);
}
Forward::~Forward() = default;

void Forward::on_point(std::function<void()> hook) { impl_->hook = std::move(hook); }
const CancellationPoints& Forward::points() const { return impl_->points; }
const layers::StepTimes& Forward::times() const { return impl_->times; }
const layers::PredictionMeter& Forward::predicted() const { return impl_->prediction.meter(); }
trunk::TrunkCounters Forward::trunk_reads() const {
  return impl_->trunk && impl_->trunk->stream() != nullptr ? impl_->trunk->stream()->counters() : trunk::TrunkCounters{};
}

// The layer loop. Names follow the paper: x is a layer's input (a mix of the residual stream), y what the sublayer adds to the
// running sum.
awaitable<Result<StepResult>> Forward::step(std::span<const Row> rows, std::stop_token stop, const StepHooks& hooks) {
  Impl& m = *impl_;
  const checkpoint::Config& config = *m.context.config;
  const auto proceed = [&m, &stop, predicting = m.predicting(rows.size())] {
    if (predicting) m.context.experts->reap();  // what was guessed is read piece by piece
    return m.go_on(m.points.blocks, stop);
  };
  if (auto opened = m.open_trunk(); opened.has_error()) co_return opened.error();
  trunk::TrunkStream* const trunk = m.trunk ? m.trunk->stream() : nullptr;
  const layers::Compute compute{
      config, *m.context.kernels, *m.context.pool, m.context.exact, proceed, trunk, &m.trunk_error, &m.times, stop};
  m.row_errors.assign(rows.size(), std::nullopt);
  group_rows(rows, m.groups);
  m.x.resize(rows.size() * config.hidden);
  m.y.resize(rows.size() * config.hidden);
  m.stream.reset(rows.size(), config.hidden, (config.layers + config.block_size - 1) / config.block_size);
  m.times.begin(m.context.weights->layers.size());
  if (!m.embed(rows, hooks.inject)) co_return m.why();
  std::vector<float>& running_sum = m.stream.running_sum;

  std::size_t kda_index = 0, mla_index = 0;
  for (std::size_t i = 0; i < m.context.weights->layers.size(); ++i) {
    const checkpoint::LayerWeights& layer = m.context.weights->layers[i];
    m.times.layer(i);
    if (!m.go_on(m.points.layers, stop)) co_return m.why();

    if (!layers::mix(compute, m.stream, layer.attention_residual, rows.size(), m.x.data())) co_return m.why();
    if (!m.attention(compute, layer, kda_index, mla_index, rows.size())) co_return m.why();
    ++(config.is_kda[i] ? kda_index : mla_index);
    if (i % config.block_size == 0) {
      m.stream.take_snapshot();  // the new running sum starts with this layer's attention
      running_sum = m.y;
    } else {
      compute.kernels.add(m.y.data(), m.y.size(), running_sum.data());
    }

    if (!layers::mix(compute, m.stream, layer.mlp_residual, rows.size(), m.x.data())) co_return m.why();
    const bool done = co_await m.feed_forward(compute, i, rows, stop, hooks);
    if (!done) co_return m.why();
    compute.kernels.add(m.y.data(), m.y.size(), running_sum.data());
    if (hooks.after_layer) hooks.after_layer(i, running_sum);
  }

  m.times.enter(layers::StepTimes::Phase::serial);
  if (!m.head(compute, rows)) co_return m.why();
  m.times.end();
  co_return StepResult{m.logits, m.row_errors};
}

}  // namespace k3
