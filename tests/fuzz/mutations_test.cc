// Thousands of nearly valid inputs for every reader, from a seed. TRIREME_TEST_SEED sets another seed,
// TRIREME_FUZZ_COUNT another number of inputs, TRIREME_FUZZ_INPUT a file as the only input.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr long kMaxGrowthMiB = 2048;  // freed memory stays in quarantine
constexpr std::uint64_t kDefaultCount = 1000;
#else
constexpr long kMaxGrowthMiB = 512;
constexpr std::uint64_t kDefaultCount = 5000;
#endif

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

long peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

/// The current input, in a file that outlives a crash; removed at the end if nothing crashed.
class CurrentInput {
 public:
  explicit CurrentInput(const std::string& reader)
      : path_(std::filesystem::temp_directory_path() / fmt::format("trireme-fuzz-{}-{}", reader, getpid())) {}
  CurrentInput(const CurrentInput&) = delete;
  CurrentInput& operator=(const CurrentInput&) = delete;
  ~CurrentInput() {
    std::error_code ignored;
    if (!keep_) std::filesystem::remove(path_, ignored);
  }
  void set(const std::string& input) const { replace_file(path_, input); }
  const std::filesystem::path& keep() {
    keep_ = true;
    return path_;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool keep_ = false;
};

class Mutations : public ::testing::TestWithParam<Reader> {
 protected:
  int read(const std::string& input) const {
    return GetParam().fuzz_one(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
};

TEST_P(Mutations, AreTakenOrRefused) {
  const Reader& reader = GetParam();
  if (const char* const file = std::getenv("TRIREME_FUZZ_INPUT")) {
    const double begin = cpu_seconds();
    read(testing::read_file(file));
    fmt::print("{:.3f} s of CPU time\n", cpu_seconds() - begin);
    return;
  }
  const std::uint64_t seed = number_from_environment("TRIREME_TEST_SEED", 1);
  const std::uint64_t count = number_from_environment("TRIREME_FUZZ_COUNT", kDefaultCount / reader.effort);
  const long before = peak_mib();
  CurrentInput current(reader.name);
  fmt::print("{} inputs, TRIREME_TEST_SEED={}; after a crash the last one is {}\n", count, seed,
             current.path().string());
  std::fflush(stdout);
  Mutator mutator(seed, reader.seeds(), reader.change);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string input = mutator.next();
    current.set(input);
    try {
      read(input);
    } catch (const std::exception& error) {
      FAIL() << "input " << i << ", kept as " << current.keep() << ": " << error.what();
    }
  }
  EXPECT_LE(peak_mib() - before, kMaxGrowthMiB) << "MiB more than before";
}

// Otherwise mutations would start from inputs that are refused at the first byte.
TEST_P(Mutations, BeginWithWhatIsTaken) {
  const Reader& reader = GetParam();
  ASSERT_FALSE(reader.seeds().empty());
  for (const std::string& seed : reader.seeds()) EXPECT_EQ(read(seed), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, Mutations, ::testing::ValuesIn(readers().begin(), readers().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace trireme::fuzz
