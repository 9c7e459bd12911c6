// The one owner of the model: a thread with one coroutine that takes jobs from a bounded mailbox and runs them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/prediction_mode.hpp"
#include "model/sequence/latent_format.hpp"
#include "model/ticket.hpp"

namespace k3 {

// Bits of a weight of the trunk; 0: as stored if that leaves room for working memory and experts, else 8 (never 4 by itself). Of a
// prepared checkpoint, 0 is always as stored.
struct WeightBits {
  unsigned most = 0;           // 4, 8, 16
  unsigned mla = 0, head = 0;  // 0: the larger of `most` and 8
};

struct ModelOptions {
  std::filesystem::path directory;
  std::vector<std::filesystem::path> shard_directories;  // in which shards may lie too
  std::string id;                                        // empty: the directory's name
  unsigned threads = 0;                                  // 0: all the process may use
  std::string isa;                                       // empty or "auto": the best this machine has
  std::size_t max_context = 0;                           // 0: the model's own limit
  std::size_t chunk = 0;                                 // prompt rows per step, at most; 0: what memory allows
  std::size_t queue_capacity = 16;                       // jobs that wait
  std::size_t parallel = 2;                              // jobs that run together, if memory has room for their states
  std::size_t layers = 0;                                // 0: all
  WeightBits bits;
  bool exact = false;  // float32 activations in products: slow, to compare with
  LatentFormat latents = LatentFormat::float32;
  float expert_top_p = 1.0F;  // 1: all chosen experts
  double ram_gb = 0;          // memory of the whole process, GB; 0: from what the machine has
  double expert_gb = -1;      // slots for experts, GB; < 0: from what the machine has
  bool mmap = false;          // the trunk, instead of reading it: as stored or not at all
  bool direct = true;
  unsigned load_threads = 0;  // of the pread backend; 0: default
  bool pipe = true;           // false: read experts one by one, synchronously
  PredictionMode predict = PredictionMode::on;
  std::filesystem::path trunk_cache;  // where rounded weights are kept for the next start, each model in its own folder; empty: not
  std::function<void(std::uint64_t done, std::uint64_t total)> load_progress, cache_progress;
};

struct ActorSeams;  // where tests put a clock, a cancel at a chosen point, a failing drive: actor_seams.hpp

class Actor : public Model {
 public:
  // Loads the model on the calling thread's time (progress is reported) and starts the model thread.
  static Result<std::unique_ptr<Actor>> start(const ModelOptions& options);
  static Result<std::unique_ptr<Actor>> start(const ModelOptions& options, const ActorSeams& seams);
  // Cancels what runs, fails what waits, joins the thread.
  ~Actor() override = default;
};

}  // namespace k3
