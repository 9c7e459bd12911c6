#include "model/experts/layout.hpp"

namespace k3::experts {

Layout layout_of(const checkpoint::Checkpoint& checkpoint) {
  const checkpoint::Config& config = checkpoint.config();
  Layout layout;
  layout.files = checkpoint.files();
  layout.first_layer = static_cast<std::uint32_t>(config.dense_layers);
  layout.layers = static_cast<std::uint32_t>(config.layers - config.dense_layers);
  layout.experts = static_cast<std::uint32_t>(config.experts);
  layout.places.reserve(std::size_t{layout.layers} * layout.experts);
  for (std::size_t layer = config.dense_layers; layer < config.layers; ++layer) {
    for (std::size_t expert = 0; expert < config.experts; ++expert) {
      const checkpoint::ExpertLocation& location = checkpoint.expert(layer, expert);
      Pieces& pieces = layout.places.emplace_back();
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const checkpoint::Tensor& tensor = location.parts[i];
        pieces[i] = {tensor.offset, static_cast<std::uint32_t>(tensor.bytes), tensor.file};
      }
    }
  }
  return layout;
}

}  // namespace k3::experts
