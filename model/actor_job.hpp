// One job on the model thread: interprets the generation machine's actions and tells the ticket what happens.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <vector>

#include "model/actor_mailbox.hpp"
#include "model/actor_sequences.hpp"
#include "model/generation/generation_machine.hpp"
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
  JobRun(const JobSurroundings& surroundings, const MailboxEntry& entry);

  // Runs to the end; the ticket has its Finished or Failed when this returns.
  boost::asio::awaitable<void> run();
  // For when run() threw: ends the ticket, unless it has its end.
  void abandon(Error error);

 private:
  using Machine = generation::GenerationMachine;
  boost::asio::awaitable<Machine::Action> run_chunk(Machine::RunChunk chunk);
  boost::asio::awaitable<Machine::Action> run_token(Machine::RunToken token);
  boost::asio::awaitable<Result<std::span<const float>>> run_rows(std::span<const std::int32_t> ids, bool wants_logits);
  Machine::Action draw(std::span<const float> logits);
  Machine::Action failed(const Error& error);
  bool go_on();
  DriveUse used() const { return around_.work.drive() - before_; }
  void report_prefill(bool always);
  void end(const Machine::Action& action);

  const JobSurroundings& around_;
  const Job& job_;
  Ticket& ticket_;
  const std::stop_token stop_;
  const std::chrono::steady_clock::time_point submitted_, started_;
  std::chrono::steady_clock::time_point reported_, first_token_;
  Sequence& sequence_;
  const std::size_t cached_;
  const DriveUse before_;  // by all jobs
  DriveUse prefill_;
  Machine machine_;
  generation::Sampler sampler_;
  std::vector<Row> rows_;
  StepHooks hooks_;
  bool ended_ = false;
};

}  // namespace k3
