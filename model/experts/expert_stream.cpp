#include "model/experts/expert_stream.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/system/system_error.hpp>

#include "model/experts/stream.hpp"

namespace k3::experts {

Lease::Lease(Lease&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)), slot_(other.slot_), bytes_(other.bytes_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(slot_, other.slot_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Lease::~Lease() {
  if (stream_ != nullptr) stream_->release(slot_);
}

Lease ExpertStream::make_lease(std::size_t slot, const ExpertBytes& bytes) {
  Lease lease;
  lease.stream_ = this;
  lease.slot_ = slot;
  lease.bytes_ = bytes;
  return lease;
}

Result<std::unique_ptr<Reader>> make_system_reader(const ReaderSetup& setup, StreamOptions::Backend backend) {
  if (backend == StreamOptions::Backend::pread) return make_pread_reader(setup);
  auto ring = make_ring_reader(setup);
  if (ring || backend == StreamOptions::Backend::ring) return ring;
  spdlog::info("{}; reading experts with {} threads instead", ring.error().describe(), setup.threads);
  return make_pread_reader(setup);
}

namespace {
std::size_t slot_bytes(const Layout& layout) {
  std::size_t most = kAlignment;
  for (const Pieces& pieces : layout.places) most = std::max<std::size_t>(most, plan_windows(pieces).bytes);
  return most;
}
}  // namespace

std::uint64_t slot_bytes(const checkpoint::Checkpoint& checkpoint) { return slot_bytes(layout_of(checkpoint)); }

Result<std::unique_ptr<ExpertStream>> open_stream(Layout layout, boost::asio::io_context& context, const StreamOptions& options,
                                                  const ReaderFactory& make_reader) {
  StreamParts parts;
  auto files = open_files(layout.files, options.direct);
  if (!files) return files.error();
  parts.files = std::move(*files);
  parts.slot_bytes = slot_bytes(layout);
  const std::size_t most = std::max<std::size_t>(layout.places.size(), 1);
  parts.slots = std::clamp<std::size_t>(options.budget_bytes / parts.slot_bytes, 1, most);
  auto memory = SlotMemory::make(parts.slots * parts.slot_bytes);
  if (!memory) return memory.error();
  parts.memory = std::move(*memory);
  parts.memory.populate();
  parts.shape = {std::clamp(options.shape.depth, 1U, 4096U), options.shape.bytes};
  parts.clock = options.clock;
  ReaderSetup setup{parts.files.fds, parts.memory.data(), parts.slots, parts.slot_bytes, parts.shape.depth, options.load_threads};
  auto reader = make_reader(setup);
  if (!reader) return reader.error();
  parts.reader = std::move(*reader);
  parts.layout = std::move(layout);
  try {
    return std::unique_ptr<ExpertStream>(std::make_unique<Stream>(std::move(parts), context));
  } catch (const boost::system::system_error& error) {  // of the event loop, asked to watch the eventfd
    return fail(ErrorCode::io, std::string("cannot watch expert reads: ") + error.what());
  }
}

namespace {

// A second is well spent where reading goes on for hours: on a model whose experts neither fit into memory nor come from the page
// cache.
bool worth_measuring(const checkpoint::Checkpoint& checkpoint, const StreamOptions& options) {
  constexpr std::uint64_t small = std::uint64_t{1} << 30;
  const checkpoint::Config& config = checkpoint.config();
  const std::uint64_t all = (config.layers - config.dense_layers) * config.experts * checkpoint.expert_bytes();
  return options.measure_shape && options.direct && all > small && options.budget_bytes < all;
}

}  // namespace

Result<std::unique_ptr<ExpertStream>> ExpertStream::open(const checkpoint::Checkpoint& checkpoint, boost::asio::io_context& context,
                                                         const StreamOptions& options) {
  const ReaderFactory make_reader = [&options](const ReaderSetup& setup) { return make_system_reader(setup, options.backend); };
  StreamOptions shaped = options;
  if (worth_measuring(checkpoint, options)) shaped.shape = measure_read_shape(checkpoint, options.budget_bytes);
  return open_stream(layout_of(checkpoint), context, shaped, make_reader);
}

}  // namespace k3::experts
