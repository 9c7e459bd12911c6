// Everything of a model that is loaded once and then only read: what the actor runs on, and what a tool may run Forward on
// directly.
#pragma once

#include <memory>

#include "kernels/kernels.hpp"
#include "model/actor.hpp"
#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/weights.hpp"
#include "model/compute_pool.hpp"
#include "model/experts/expert_stream.hpp"
#include "model/forward.hpp"
#include "model/memory_plan.hpp"

namespace k3 {

struct LoadedModel {
  checkpoint::Checkpoint checkpoint;
  checkpoint::Weights weights;
  const kernels::Table* kernels = nullptr;
  std::unique_ptr<ComputePool> pool;
  MemoryPlan plan;
  experts::StreamOptions stream;  // with that budget
  std::size_t chunk = 0;          // prompt rows per step, at most
  checkpoint::TrunkPrecision precision;
  std::size_t parallel = 1;  // jobs that run together, at most; as many sequences are planned for
  bool exact = false;
  LatentFormat latents = LatentFormat::float32;
  float expert_top_p = 1.0F;
  PredictionMode predict = PredictionMode::off;
  ModelInfo info;

  // What a Forward needs; this model and `experts` must outlive it.
  ForwardContext forward_context(experts::ExpertStream& experts) const;
};

// Whether the model has what the options ask of it: so long a context, so many layers.
Result<void> check_against(const ModelOptions& options, const checkpoint::Config& config);
// The precision that the trunk will be loaded in. `auto` is a container's own; else 16 bits, unless those do not fit into memory
// and 8 do. A trunk that is to be mapped is as stored; an error names what cannot be.
Result<checkpoint::TrunkPrecision> choose_precision(const ModelOptions& options, const checkpoint::Checkpoint& checkpoint);
// How memory will be divided, by what the machine has now and what --ram-gb allows.
Result<MemoryPlan> plan_memory_of(const ModelOptions& options, const checkpoint::Checkpoint& checkpoint,
                                  const checkpoint::TrunkPrecision& precision);

// Opens the checkpoint, reads the trunk on the calling thread's time, chooses kernels and the memory plan. On the heap, because an
// ExpertStream points into it.
Result<std::unique_ptr<LoadedModel>> load_model(const ModelOptions& options);

}  // namespace k3
