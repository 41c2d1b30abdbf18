#include "launcher/host/standard_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace trireme {
namespace {

/// Names as a stranger may choose them: a title for the terminal, a C1 command, text that runs backwards,
/// DEL.
constexpr const char* kHostileName = "a\x1b]0;title\x07\u009b2J\u202e\x7f";
constexpr const char* kShownName = "a\\x1b]0;title\\x07\\u009b2J\\u202e\\u007f";

std::string printed(const std::function<void()>& print) {
  ::testing::internal::CaptureStdout();
  print();
  return ::testing::internal::GetCapturedStdout();
}

/// As printed(), with a terminal for standard output.
std::string shown_on_terminal(const std::function<void()>& print) {
  const int reader = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_EQ(grantpt(reader), 0);
  EXPECT_EQ(unlockpt(reader), 0);
  const int terminal = open(ptsname(reader), O_RDWR | O_NOCTTY);
  termios settings{};
  EXPECT_EQ(tcgetattr(terminal, &settings), 0);
  cfmakeraw(&settings);
  EXPECT_EQ(tcsetattr(terminal, TCSANOW, &settings), 0);
  flush_output();
  const int before = dup(STDOUT_FILENO);
  dup2(terminal, STDOUT_FILENO);
  print();
  flush_output();
  dup2(before, STDOUT_FILENO);
  std::array<char, 4096> bytes{};
  const ssize_t count = read(reader, bytes.data(), bytes.size());
  for (const int file : {reader, terminal, before}) close(file);
  EXPECT_GT(count, 0);
  return {bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

TEST(StandardOutput, TextKeepsItsLinesAndNoOtherControlCharacter) {
  EXPECT_EQ(printed([] { print_text(std::string("x\ty\n") + kHostileName + "\r\n"); }),
            std::string("x\ty\n") + kShownName + "\\x0d\n");
  EXPECT_EQ(printed([] { print_line(std::string(kHostileName) + "\n\tb"); }),
            std::string(kShownName) + "\\n\\tb\n");
  EXPECT_EQ(printed([] { refresh_line(std::string(kHostileName) + "\n\rb"); }),
            std::string("\r") + kShownName + "\\n\\x0db");
}

TEST(StandardOutput, JsonKeepsItsValues) {
  const nlohmann::ordered_json json = {{kHostileName, std::string(kHostileName) + "\n"}};
  for (const int indent : {-1, 1}) {
    const std::string text = printed([&] { print_text(json.dump(indent)); });
    EXPECT_EQ(text.find_first_of("\x1b\x07\x7f"), std::string::npos) << text;
    EXPECT_EQ(text.find("\u009b"), std::string::npos) << text;
    EXPECT_EQ(text.find("\u202e"), std::string::npos) << text;
    EXPECT_EQ(nlohmann::ordered_json::parse(text), json);
  }
}

TEST(StandardOutput, GeneratedTextIsEscapedOnATerminalOnly) {
  const std::string text = std::string("x\ty\n") + kHostileName;
  EXPECT_EQ(printed([&] { print_generated(text); }), text);
  EXPECT_EQ(shown_on_terminal([&] { print_generated(text); }), std::string("x\ty\n") + kShownName);
}

}  // namespace
}  // namespace trireme
