// An actor on the golden tiny model, and an asker that collects what a ticket is told.
#pragma once

#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "model/actor.hpp"
#include "model/actor_seams.hpp"
#include "model/text/json.hpp"
#include "tests/catch.hpp"

namespace k3::actor_test {

using Ids = std::vector<std::int32_t>;

inline Ids id_list(const json::Value& value) {
  Ids ids;
  for (const auto& item : value.items) ids.push_back(static_cast<std::int32_t>(item.as_int().value()));
  return ids;
}

struct Golden {
  Ids tokens, greedy, argmax;
};

inline const Golden& golden() {
  static const Golden loaded = [] {
    std::ifstream file(K3_TEST_DATA "/tiny/golden.json");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const json::Value value = json::parse(text).value();
    return Golden{id_list(*value.find("tokens")), id_list(*value.find("greedy")), id_list(*value.find("argmax"))};
  }();
  return loaded;
}

inline ModelOptions tiny_options() {
  ModelOptions options;
  options.directory = K3_TEST_DATA "/tiny/model";
  options.threads = 2;
  options.chunk = 16;
  options.parallel = 1;  // one after the other: what runs beside what is the tests' own to say
  options.expert_gb = 0.001;
  options.direct = false;
  options.exact = true;  // the golden ids come from float64
  return options;
}

inline std::unique_ptr<Actor> start(const ModelOptions& options, const ActorSeams& seams = {}) {
  auto actor = Actor::start(options, seams);
  if (actor.has_error()) FAIL(actor.error().describe());
  return std::move(*actor);
}

inline Job greedy_job(Ids prompt, std::size_t max_tokens) {
  Job job;
  job.prompt = std::move(prompt);
  job.max_tokens = max_tokens;
  job.sampling.temperature = 0;
  return job;
}

// Queued or running. One look at the status: between two of them a job may go from one to the other, and would be counted in
// neither.
inline std::size_t unfinished(const Actor& actor) {
  const ModelStatus status = actor.status();
  return status.running + status.queued;
}

// One ticket and everything that came out of it.
class Asker {
 public:
  Asker() {
    ticket_->on_event([wakeup = wakeup_] {
      const std::lock_guard lock(wakeup->mutex);
      ++wakeup->pushed;
      wakeup->changed.notify_all();
    });
  }

  Result<void> submit(Actor& actor, Job job) { return actor.submit(std::move(job), ticket_); }
  Ticket& ticket() { return *ticket_; }

  // Waits for the end; the limit only turns a hang into a failure.
  Asker& wait() {
    return wait_until([this] { return ended(); });
  }
  Asker& wait_events(std::size_t count) {
    return wait_until([this, count] { return events.size() >= count; });
  }

  bool ended() const { return finished() != nullptr || failed() != nullptr; }
  const Finished* finished() const { return events.empty() ? nullptr : std::get_if<Finished>(&events.back()); }
  const Failed* failed() const { return events.empty() ? nullptr : std::get_if<Failed>(&events.back()); }
  Ids tokens() const {
    Ids ids;
    for (const Token& token : all<Token>()) ids.push_back(token.id);
    return ids;
  }
  template <class T>
  std::vector<T> all() const {
    std::vector<T> out;
    for (const Event& event : events) {
      if (const auto* e = std::get_if<T>(&event)) out.push_back(*e);
    }
    return out;
  }

  std::vector<Event> events;

 private:
  template <class Condition>
  Asker& wait_until(Condition done) {
    for (;;) {
      std::size_t seen = 0;
      {
        const std::lock_guard lock(wakeup_->mutex);
        seen = wakeup_->pushed;
      }
      while (auto event = ticket_->pop()) events.push_back(std::move(*event));
      if (done()) return *this;
      std::unique_lock lock(wakeup_->mutex);
      const auto pushed = [&] { return wakeup_->pushed != seen; };
      if (!wakeup_->changed.wait_for(lock, std::chrono::minutes(2), pushed)) FAIL("the actor hangs");
    }
  }

  // Shared with the ticket: the model thread may still be inside the last wake-up when the asker has its answer and is gone.
  struct Wakeup {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t pushed = 0;
  };

  std::shared_ptr<Ticket> ticket_ = std::make_shared<Ticket>(4096);
  std::shared_ptr<Wakeup> wakeup_ = std::make_shared<Wakeup>();
};

inline Ids generate(Actor& actor, Ids prompt, std::size_t max_tokens) {
  Asker asker;
  REQUIRE(asker.submit(actor, greedy_job(std::move(prompt), max_tokens)).has_value());
  asker.wait();
  if (asker.failed() != nullptr) FAIL(asker.failed()->error.describe());
  return asker.tokens();
}

// A gate that the model thread stops at, so that a test decides what happens meanwhile.
class Gate {
 public:
  void arrive() {
    std::unique_lock lock(mutex_);
    if (open_) return;
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    --waiting_;
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

}  // namespace k3::actor_test
