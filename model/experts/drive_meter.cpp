#include "model/experts/drive_meter.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "model/experts/reader.hpp"
#include "model/experts/slot_memory.hpp"
#include "model/experts/stream.hpp"
#include "model/experts/windows.hpp"

namespace k3::experts {
namespace {

// Every block of every file, in an order that jumps between the files and within them, as experts do. A last partial block is left
// out unless it is all there is.
std::vector<Place> places(const std::vector<checkpoint::File>& files, std::size_t block) {
  std::vector<Place> out;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    for (std::uint64_t offset = 0; offset == 0 || offset + block <= files[file].bytes; offset += block)
      out.push_back({file, offset});
  }
  std::uint64_t state = block;
  for (std::size_t i = out.size(); i > 1; --i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::swap(out[i - 1], out[(state >> 33) % i]);
  }
  return out;
}

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Keeps `depth` reads in flight until the time is over, then waits for the last of them.
class Run {
 public:
  Run(Reader& reader, const std::vector<Place>& places, const std::vector<checkpoint::File>& files, Replicas replicas,
      std::byte* memory, std::size_t block)
      : reader_(reader), places_(places), files_(files), replicas_(std::move(replicas)), memory_(memory), block_(block) {}

  Result<double> measure(unsigned depth, double seconds) {
    std::vector<Completion> reads(depth);
    const double begin = seconds_now();
    end_ = begin + seconds;
    for (unsigned slot = 0; slot < depth; ++slot) {
      reads[slot].slot = slot;
      submit(reads[slot]);
    }
    reader_.flush();
    while (reader_.in_flight() != 0) {
      reader_.wait();
      reader_.reap([this](Completion& read) { finish(read); });
      reader_.flush();
    }
    if (failure_ != 0) return fail(ErrorCode::io, std::string("reading the model's files: ") + std::strerror(failure_));
    return static_cast<double>(bytes_) / (seconds_now() - begin);
  }

 private:
  void submit(Completion& read) {
    const Place& place = places_[next_++ % places_.size()];
    read.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(block_, align_up(files_[place.file].bytes - place.offset)));
    read.offset = place.offset;
    read.into = memory_ + read.slot * block_;
    std::uint32_t tried = 0;
    replicas_.choose(place.file, read, tried);
    replicas_.begin(read);
    reader_.submit(read);
  }
  void finish(Completion& read) {
    replicas_.end(read);
    if (read.result < 0) {
      failure_ = -read.result;
      return;
    }
    bytes_ += static_cast<std::uint64_t>(read.result);
    if (failure_ == 0 && seconds_now() < end_) submit(read);
  }

  Reader& reader_;
  const std::vector<Place>& places_;
  const std::vector<checkpoint::File>& files_;
  Replicas replicas_;
  std::byte* memory_;
  std::size_t block_, next_ = 0;
  double end_ = 0;
  std::uint64_t bytes_ = 0;
  int failure_ = 0;
};

}  // namespace

Result<DriveMeter> DriveMeter::open(const std::vector<checkpoint::File>& files) {
  if (files.empty()) return fail(ErrorCode::not_found, "the model has no files to read");
  auto opened = open_files(files, true);
  if (opened.has_error()) return opened.error();
  DriveMeter reads;
  reads.sizes_ = files;
  reads.files_ = std::move(opened).value();
  return reads;
}

Result<double> DriveMeter::run(unsigned depth, std::size_t block, double seconds) {
  auto memory = SlotMemory::make(depth * block);
  if (memory.has_error()) return memory.error();
  std::memset(memory->data(), 1, depth * block);  // its pages are no part of a read
  ReaderSetup setup;
  setup.files = files_.fds;
  setup.memory = memory->data();
  setup.slots = depth;
  setup.slot_bytes = block;
  setup.depth = depth;
  setup.threads = depth;
  auto reader = make_system_reader(setup, StreamOptions::Backend::automatic);
  if (reader.has_error()) return reader.error();
  engine_ = (*reader)->name();
  const std::vector<Place> order = places(sizes_, block);
  Run run(**reader, order, sizes_, files_.replicas(std::chrono::steady_clock::now), memory->data(), block);
  return run.measure(depth, seconds);
}

Result<double> DriveMeter::run_experts(std::size_t expert_bytes, double seconds) {
  constexpr unsigned experts = 16;
  return run(experts, std::max<std::size_t>(kAlignment, align_down(expert_bytes)), seconds);
}

}  // namespace k3::experts
