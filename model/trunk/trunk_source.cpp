#include "model/trunk/trunk_source.hpp"

#include "model/experts/stream.hpp"

namespace k3::trunk {

Result<std::unique_ptr<TrunkSource>> TrunkSource::open(const checkpoint::Checkpoint& checkpoint, const checkpoint::Weights& weights,
                                                       const TrunkStreamOptions& options) {
  auto source = std::make_unique<TrunkSource>();
  source->weights_ = &weights;
  if (!weights.streamed.empty()) {
    const experts::ReaderFactory make_reader = [](const experts::ReaderSetup& setup) {
      return experts::make_system_reader(setup, experts::StreamOptions::Backend::automatic);
    };
    auto stream = TrunkStream::open(checkpoint.files(), weights.streamed, options, make_reader);
    if (stream.has_error()) return stream.error();
    source->stream_ = std::move(*stream);
  }
  if (weights.streamed_embedding) {
    source->embedding_file_ = checkpoint::AnyCopy(checkpoint.files()[weights.streamed_embedding->file]);
    source->row_.resize(weights.embedding.columns);
  }
  return source;
}

Result<const std::uint16_t*> TrunkSource::embedding_row(std::size_t token) {
  const checkpoint::StreamedMatrix& on_drive = *weights_->streamed_embedding;
  const auto read = embedding_file_.read(row_.data(), on_drive.row_bytes, on_drive.offset + token * on_drive.row_bytes);
  if (read.has_error()) return read.error();
  return static_cast<const std::uint16_t*>(row_.data());
}

}  // namespace k3::trunk
