#include "parallel/watch/silent_peers.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace trireme {
namespace {

using ::testing::IsEmpty;

/// Both ends of a TCP connection of this process to itself.
class Connection {
 public:
  Connection() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    ok_ = bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(listener, 1) == 0 &&
          getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    near_ = socket(AF_INET, SOCK_STREAM, 0);
    ok_ = ok_ && connect(near_, reinterpret_cast<sockaddr*>(&address), length) == 0;
    far_ = ok_ ? accept(listener, nullptr, nullptr) : -1;
    ok_ = ok_ && far_ >= 0;
    close(listener);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    close(near_);
    close(far_);
  }
  bool ok() const { return ok_; }
  bool send(char byte) const { return write(near_, &byte, 1) == 1; }

 private:
  int near_ = -1, far_ = -1;
  bool ok_ = false;
};

bool set_loopback(bool up) {
  const int any = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = static_cast<short>(up ? IFF_UP : 0);
  const bool done = ioctl(any, SIOCSIFFLAGS, &request) == 0;
  close(any);
  return done;
}

constexpr int kSilent = 0, kSkipped = 77;

/// Runs in a separate process and network namespace, and takes the link down. Returns the exit code.
int lose_the_link() {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return kSkipped;
  if (!set_loopback(true)) return kSkipped;
  const Connection connection;
  if (!connection.ok() || !connection.send('a')) return 2;
  if (!set_loopback(false) || !connection.send('b')) return 3;
  if (!find_silent_peers().empty()) return 4;  // too early
  for (int i = 0; i < 100; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto found = find_silent_peers();
    if (found.empty()) continue;
    const bool right = found.size() == 1 && found[0].address == "127.0.0.1" && found[0].silent_s >= 0.5 &&
                       found[0].num_resent >= 2;
    return right ? kSilent : 5;
  }
  return 6;
}

TEST(SilentPeers, AreThoseToWhichTheLinkIsDown) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(lose_the_link());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "this machine does not permit network namespaces";
  EXPECT_EQ(WEXITSTATUS(status), kSilent) << "see lose_the_link()";
}

// The kernel acknowledges data even if the process does not read it.
TEST(SilentPeers, AreNotThoseThatDoNotReadWhatIsSent) {
  const Connection connection;
  ASSERT_TRUE(connection.ok());
  ASSERT_TRUE(connection.send('a'));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_THAT(describe_silent_peers(find_silent_peers()), IsEmpty());
}

TEST(SilentPeers, AreNamedByTheirAddress) {
  EXPECT_EQ(describe_silent_peers({}), "");
  EXPECT_EQ(describe_silent_peers({{.address = "10.0.0.2", .silent_s = 1.62, .num_resent = 3},
                                   {.address = "10.0.0.3", .silent_s = 1.5, .num_resent = 2}}),
            "10.0.0.2 has acknowledged nothing for 1.6 s, after 3 retransmissions; "
            "10.0.0.3 has acknowledged nothing for 1.5 s, after 2 retransmissions: "
            "the host or the link to it may be down");
}

}  // namespace
}  // namespace trireme
