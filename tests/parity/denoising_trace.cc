// Samplers step by step over a toy network, for denoising_parity.py.
//
//   denoising_trace FILE METHOD SCHEDULE PREDICTION STEPS CLIPS OFFSET ALPHA_TO_ONE: reads lines of numbers
//   from standard input, the starting noise and then the noise of each step, and writes the state after each
//   step to FILE. Flags are 0 or 1.
#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/diffusion/denoising.h"

namespace {

using trireme::DenoisingMethod;
using trireme::DiffusionTarget;
using trireme::NoiseSchedule;

template <class T>
T choose(const std::string& word, std::initializer_list<std::pair<const char*, T>> choices) {
  for (const auto& [name, value] : choices) {
    if (word == name) return value;
  }
  throw std::runtime_error("unknown word " + word);
}

std::vector<float> read_line_of_numbers() {
  std::string line;
  std::getline(std::cin, line);
  std::istringstream in(line);
  std::vector<float> numbers;
  for (float number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

}  // namespace

int main(int, char** argv) {
  const trireme::DenoisingOptions options{
      .method = choose<DenoisingMethod>(argv[2], {{"ddpm", DenoisingMethod::kDdpm},
                                                  {"ddim", DenoisingMethod::kDdim},
                                                  {"dpm-solver++", DenoisingMethod::kDpmSolver}}),
      .num_steps = std::stoll(argv[5]),
      .prediction = choose<DiffusionTarget>(argv[4], {{"epsilon", DiffusionTarget::kNoise},
                                                      {"v_prediction", DiffusionTarget::kVelocity},
                                                      {"sample", DiffusionTarget::kSample}}),
      .clips = std::string(argv[6]) == "1",
      .steps_offset = std::stoll(argv[7]),
      .set_alpha_to_one = std::string(argv[8]) == "1"};
  const NoiseSchedule schedule(
      {.kind = choose<NoiseSchedule::Kind>(argv[3], {{"linear", NoiseSchedule::Kind::kLinear},
                                                     {"scaled_linear", NoiseSchedule::Kind::kScaledLinear},
                                                     {"squaredcos_cap_v2", NoiseSchedule::Kind::kCosine}})});
  std::ofstream out(argv[1]);
  out.precision(9);
  trireme::Denoising denoising(schedule, options);
  std::vector<float> x = read_line_of_numbers();
  for (std::size_t step = 0; step < denoising.timesteps().size(); ++step) {
    const auto t = static_cast<float>(denoising.timesteps()[step]);
    // The toy network of denoising_parity.py.
    std::vector<float> prediction;
    for (const float at : x) prediction.push_back(0.5f * std::tanh(at) + 0.1f * std::sin(0.01f * t));
    denoising.step(step, prediction, read_line_of_numbers(), x);
    out << denoising.timesteps()[step];
    for (const float value : x) out << ' ' << value;
    out << '\n';
  }
}
