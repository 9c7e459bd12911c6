// One job on the model thread, step by step: what it wants computed next, and what became of it. Interprets the generation
// machine's actions and tells the ticket what happens.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "model/actor_mailbox.hpp"
#include "model/actor_sequences.hpp"
#include "model/generation/generation_machine.hpp"
#include "model/generation/guide.hpp"
#include "model/generation/sampler.hpp"
#include "model/loaded_model.hpp"
#include "model/work_meter.hpp"

namespace k3 {

// What jobs share; owned by the model thread and outliving them.
struct JobSurroundings {
  const LoadedModel& model;
  Forward& forward;
  LiveSequences& sequences;
  WorkMeter& work;
  const std::function<std::chrono::steady_clock::time_point()>& clock;
  const std::function<void()>& on_point;
};

class JobRun {
 public:
  // Takes a sequence, which is its own until it goes.
  JobRun(const JobSurroundings& surroundings, MailboxEntry entry);
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  const std::shared_ptr<Ticket>& ticket() const { return entry_.ticket; }
  bool ended() const { return ended_; }  // the ticket has its Finished or Failed
  bool prefilling() const { return machine_.state() == generation::GenerationMachine::State::prefill; }

  // Its turn has come. Ends a job that is wanted no more.
  void begin();
  // What it wants computed next, at most `most` rows (at least 1) of a prompt: appended to `rows`. Returns how many; only of the
  // prompt's last one and of a token are logits wanted. The same again until stepped() or abandon().
  std::size_t next_rows(std::size_t most, std::vector<Row>& rows) const;
  // Those `count` rows are computed: commits them and goes on. `logits` [vocabulary], where they were wanted.
  void stepped(std::size_t count, std::span<const float> logits);
  // Ends it, unless it has ended.
  void abandon(Error error);

 private:
  using Machine = generation::GenerationMachine;
  std::span<const std::int32_t> next_ids(std::size_t most) const;
  Machine::Action draw(std::span<const float> logits);
  Result<std::int32_t> next_id(std::span<const float> logits);
  bool go_on();
  DriveUse used() const { return around_.work.drive() - before_; }
  void report_prefill(bool always);
  void act(Machine::Action action);
  void finish(FinishReason reason);

  const JobSurroundings& around_;
  const MailboxEntry entry_;
  const std::stop_token stop_;
  const std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point reported_, first_token_;
  const LiveSequences::Taken sequence_;
  const std::size_t cached_;
  const DriveUse before_;  // by all jobs
  DriveUse prefill_;
  Machine machine_;
  Machine::Action action_ = Machine::Finish{};  // RunPrompt or RunToken, from begin() until it has ended
  generation::Sampler sampler_;
  generation::Guide guide_;
  const std::size_t most_;  // tokens of output
  bool ended_ = false;
};

}  // namespace k3
