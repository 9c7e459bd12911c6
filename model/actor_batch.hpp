// The jobs that run, together: each step computes the next rows of all of them, so that what it reads serves all that need it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <list>
#include <vector>

#include "model/actor_job.hpp"

namespace k3 {

class Batch {
 public:
  // `most` jobs at a time; around.sequences must have as many sequences.
  Batch(const JobSurroundings& around, Mailbox& mailbox, std::size_t most);

  bool full() const { return runs_.size() == most_; }
  bool empty() const { return runs_.empty(); }
  void add(MailboxEntry entry);
  // One step for all: those that decode have a row each; those with a prompt to read share what is left of the chunk. Whoever has
  // ended afterwards is gone, and done as far as the mailbox is concerned.
  //
  // While some decode and others read prompts, steps with prompt rows take no more than about half of the time: a step with many
  // rows takes minutes where one with few takes seconds, and who reads along wants to see tokens. Those keep coming in every step.
  //
  // A step is given up as soon as most of its rows are wanted by nobody; the others' are computed again. One that fails is made
  // again for each job alone, so that only those fail whom it concerns.
  boost::asio::awaitable<void> step();

 private:
  struct Part {
    JobRun* run = nullptr;
    std::size_t first = 0, count = 0;  // rows
  };
  void choose_parts();
  void add_part(JobRun& run, std::size_t most);
  boost::asio::awaitable<Result<void>> run_parts();
  void hand_out(const StepResult& result);
  void remove_ended();

  const JobSurroundings& around_;
  Mailbox& mailbox_;
  const std::size_t most_;
  std::list<JobRun> runs_;  // whose turn comes first in front
  std::vector<Part> parts_;
  std::vector<Row> rows_;
  StepHooks hooks_;
  std::chrono::steady_clock::time_point prompts_again_;  // until then prompts wait, if anybody decodes
};

}  // namespace k3
