#include "model/actor.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <future>
#include <new>
#include <thread>

#include "model/actor_batch.hpp"
#include "model/actor_seams.hpp"

namespace k3 {

namespace {

namespace asio = boost::asio;
using asio::awaitable;

Error context_exceeded(std::size_t limit, std::size_t prompt) {
  Error error = fail(ErrorCode::invalid_argument, "this model's maximum context length is " + std::to_string(limit) +
                                                      " tokens, the prompt has " + std::to_string(prompt) +
                                                      " and the answer needs at least 1");
  error.expected = "at most " + std::to_string(limit - 1);
  error.got = std::to_string(prompt);
  return error;
}

class ModelActor final : public Actor {
 public:
  ModelActor(std::unique_ptr<LoadedModel> model, const ModelOptions& options, const ActorSeams& seams)
      : model_(std::move(model)), seams_(seams), mailbox_(options.queue_capacity) {
    if (!seams_.clock) seams_.clock = [] { return std::chrono::steady_clock::now(); };
  }

  ~ModelActor() override {
    if (!thread_.joinable()) return;
    mailbox_.close();
    wake();
    thread_.join();
  }

  Result<void> begin();
  Result<void> submit(Job job, std::shared_ptr<Ticket> ticket) override;
  ModelInfo info() const override { return model_->info; }
  ModelStatus status() const override { return mailbox_.status(); }
  std::optional<std::size_t> cached_tokens(std::span<const std::int32_t> prompt) const override {
    return mailbox_.cached_tokens(prompt);
  }

 private:
  void thread_main();
  awaitable<void> serve();
  awaitable<void> serve_with(experts::ExpertStream& experts);
  Result<std::unique_ptr<experts::ExpertStream>> open_experts();
  // Posted, not called: the timer belongs to the model thread. A job that arrives between pop() and the wait is not lost, because
  // the posted cancel can only run once the wait has begun.
  void wake() {
    asio::post(context_, [this] { idle_.cancel(); });
  }
  void report_start(Result<void> outcome) {
    if (!std::exchange(reported_, true)) started_.set_value(std::move(outcome));
  }

  const std::unique_ptr<LoadedModel> model_;
  ActorSeams seams_;
  Mailbox mailbox_;
  asio::io_context context_{1};
  asio::steady_timer idle_{context_,
                           asio::steady_timer::time_point::max()};  // never expires: the model thread's condition variable
  std::promise<Result<void>> started_;
  bool reported_ = false;  // model thread
  std::thread thread_;
};

Result<void> ModelActor::begin() {
  std::future<Result<void>> started = started_.get_future();
  thread_ = std::thread([this] { thread_main(); });
  return started.get();
}

void ModelActor::thread_main() {
  asio::co_spawn(context_, serve(), [this](std::exception_ptr thrown) {
    if (!thrown) return;
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      spdlog::error("the model thread ends: {}", e.what());
      report_start(fail(ErrorCode::internal, std::string("unexpected exception: ") + e.what()));
    }
  });
  for (;;) {
    try {
      context_.run();
      break;
    } catch (const std::exception& e) {
      spdlog::error("exception on the model thread: {}", e.what());  // from a stray handler; the actor's coroutine is not in it
    }
  }
  mailbox_.close();  // however it ended, nobody is left waiting
}

Result<std::unique_ptr<experts::ExpertStream>> ModelActor::open_experts() {
  if (seams_.open_experts) return seams_.open_experts(model_->checkpoint, context_, model_->stream);
  return experts::ExpertStream::open(model_->checkpoint, context_, model_->stream);
}

awaitable<void> ModelActor::serve() {
  auto experts = open_experts();
  if (experts.has_error()) {
    report_start(experts.error());
    co_return;
  }
  std::exception_ptr thrown;
  try {
    co_await serve_with(**experts);
  } catch (...) {
    thrown = std::current_exception();
  }
  co_await (*experts)->drain();  // reads in flight write into the stream's slots
  if (thrown) std::rethrow_exception(thrown);
}

awaitable<void> ModelActor::serve_with(experts::ExpertStream& experts) {
  const ForwardContext forward_context = model_->forward_context(experts);
  Forward forward(forward_context);
  if (seams_.on_point) forward.on_point(seams_.on_point);
  LiveSequences sequences(model_->checkpoint.config(), model_->latents, model_->plan.live_sequences, mailbox_);
  WorkMeter work(forward, experts, mailbox_);
  const JobSurroundings around{*model_, forward, sequences, work, seams_.clock, seams_.on_point};
  report_start(Result<void>());
  Batch batch(around, mailbox_, model_->parallel);
  while (!mailbox_.closed() || !batch.empty()) {
    while (!batch.full()) {
      std::optional<MailboxEntry> entry = mailbox_.pop();
      if (!entry) break;
      batch.add(std::move(*entry));
    }
    if (!batch.empty()) {
      co_await batch.step();
      continue;
    }
    boost::system::error_code cancelled;
    auto token = asio::redirect_error(asio::use_awaitable, cancelled);
    co_await idle_.async_wait(token);
  }
}

Result<void> ModelActor::submit(Job job, std::shared_ptr<Ticket> ticket) {
  const ModelInfo& known = model_->info;
  if (job.prompt.empty()) return fail(ErrorCode::invalid_argument, "the prompt is empty: at least one token is needed");
  for (const std::int32_t id : job.prompt) {
    if (id >= 0 && static_cast<std::size_t>(id) < known.vocabulary) continue;
    Error error = fail(ErrorCode::invalid_argument, "the prompt has a token id outside the vocabulary");
    error.expected = "0 to " + std::to_string(known.vocabulary - 1);
    error.got = std::to_string(id);
    return error;
  }
  if (job.prompt.size() + 1 > known.context_limit) return context_exceeded(known.context_limit, job.prompt.size());
  if (const auto valid = generation::validate(job.sampling, known.vocabulary); valid.has_error()) return valid.error();
  auto admitted = mailbox_.push({std::move(job), std::move(ticket), seams_.clock(), 0});
  if (admitted.has_value()) wake();
  return admitted;
}

}  // namespace

Result<std::unique_ptr<Actor>> Actor::start(const ModelOptions& options) { return start(options, ActorSeams{}); }

Result<std::unique_ptr<Actor>> Actor::start(const ModelOptions& options, const ActorSeams& seams) {
  auto model = load_model(options);
  if (model.has_error()) return model.error();
  auto actor = std::make_unique<ModelActor>(std::move(*model), options, seams);
  if (const auto begun = actor->begin(); begun.has_error()) return begun.error();
  return std::unique_ptr<Actor>(std::move(actor));
}

}  // namespace k3
