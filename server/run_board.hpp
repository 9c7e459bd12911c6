// All runs of the model, in the order in which it will take them; how fast it has been of late; and what follows for who waits.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <list>

#include "server/pace.hpp"
#include "server/shared_run.hpp"

namespace k3::server {

class RunBoard {
 public:
  // `app` outlives the board. Server's thread.
  explicit RunBoard(App& app);

  // The run that a re-sent request may join.
  std::shared_ptr<SharedRun> find(const RunIdentity& identity) const;
  // The run whose answers have an id that ends so, if it is this API key's; null: there is none.
  std::shared_ptr<SharedRun> with_id(std::string_view id, std::string_view key) const;
  // Whether this API key has as many answers running and waiting as it may: the others' turn comes too.
  bool at_limit(const RunIdentity& identity) const;
  // A run of its own, submitted.
  Result<std::shared_ptr<SharedRun>> begin(RunIdentity identity, Job job);
  void forget(const SharedRun& run);

  // Ends the runs whose grace is over.
  void look_at_clock();
  // The server is going: nobody will come back for a run.
  void expect_nobody();

  // Until the model takes up this run; nullopt: nothing was measured that could tell.
  std::optional<double> seconds_until_turn(const SharedRun& run) const;
  // What a full queue tells a client to wait: a place becomes free when a running answer ends. Where nothing was measured yet, as
  // long again as that answer has taken so far.
  std::int64_t retry_after() const;

  PromptPace& prompt_pace() { return prompt_pace_; }
  Pace& token_pace() { return token_pace_; }
  void note_length(std::size_t tokens);

 private:
  std::optional<double> seconds_left(const SharedRun& run) const;

  App& app_;
  asio::steady_timer timer_;
  std::list<std::shared_ptr<SharedRun>> runs_;
  PromptPace prompt_pace_;
  Pace token_pace_{200};
  std::optional<double> answer_tokens_;  // of an answer, smoothed
};

}  // namespace k3::server
