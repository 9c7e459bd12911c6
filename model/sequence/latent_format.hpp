// How the cache of latent attention keeps its rows. bf16 takes half the memory and rounds each row once, when it is written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace k3 {

enum class LatentFormat : std::uint8_t { float32, bf16 };

constexpr std::size_t latent_bytes(LatentFormat format) { return format == LatentFormat::bf16 ? 2 : 4; }

}  // namespace k3
