// The small text files of a synthetic checkpoint.
#pragma once

#include <string>

#include "model/checkpoint/synth.hpp"

namespace k3::checkpoint {

std::string synth_config(const SynthOptions& options, std::size_t vocabulary);
// `vocabulary` - 256 lines: the 256 bytes, then unique words of lower-case letters. The released vocabulary is not redistributed.
std::string synth_tiktoken(std::size_t vocabulary);
std::string synth_tokenizer_config(std::size_t vocabulary);

}  // namespace k3::checkpoint
