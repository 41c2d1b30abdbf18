// Text for vocabulary tests: sentences with a grammar, so that merges occur.
#pragma once

#include <string>

namespace trireme::testing {

inline std::string sample_text(int num_lines) {
  const char* subjects[] = {"the rower", "a captain", "the old ship", "every oar", "the western wind"};
  const char* verbs[] = {"pulls", "follows", "carries", "turns towards", "waits for"};
  const char* objects[] = {"the harbour", "the current", "a distant island", "the drummer", "the morning"};
  std::string text;
  for (int i = 0; i < num_lines; ++i) {
    text += std::string(subjects[i % 5]) + ' ' + verbs[i / 5 % 5] + ' ' + objects[(i / 3 + i) % 5];
    text += i % 4 == 0 ? ";\n\tand then: " + std::to_string(i * 7) + "\n" : ".\n";
  }
  return text;
}

}  // namespace trireme::testing
