// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Encodings of every CPU backend against plain loops.
#include <limits>

#include "base/math.h"
#include "tests/ops/encoding_cases.h"

namespace ddpbench::ops::testing {
namespace {

constexpr float kScale = 0.25F;

struct Encoded {
  std::vector<std::byte> bytes;
  Values error, decoded;
};

Encoded encode_parts(BackendFixture& fixture, const Encoding& encoding,
                     const std::vector<Values>& parts, Values error) {
  const std::size_t count = parts[0].size();
  const std::size_t stride = round_up(encoding.bytes(count), std::size_t{64});
  Encoded result{std::vector<std::byte>(stride * parts.size()), error, Values(count)};
  for (std::size_t p = 0; p < parts.size(); ++p) {
    result.error = error;
    fixture.backend().encode(fixture.stream(),
                             {.encoding = encoding,
                              .in = parts[p].data(),
                              .count = count,
                              .scale = kScale,
                              .error = encoding.is_cast() ? nullptr : result.error.data(),
                              .out = result.bytes.data() + p * stride});
  }
  fixture.backend().decode(fixture.stream(), {.encoding = encoding,
                                              .in = result.bytes.data(),
                                              .parts = parts.size(),
                                              .stride = stride,
                                              .out = result.decoded.data(),
                                              .count = count});
  return result;
}

TEST(Encoding, DecodesToWhatPlainLoopsGiveAndKeepsWhatIsLost) {
  for (BackendFixture& fixture : all_backends())
    for (const Encoding& encoding : encoding_cases())
      for (const std::int64_t count : kEncodedCounts) {
        SCOPED_TRACE(count);
        const Values in = random_values(count, 1), error = random_values(count, 2);
        const bool keeps = !encoding.is_cast();
        std::vector<double> values(in.size());
        for (std::size_t i = 0; i < in.size(); ++i) {
          values[i] = static_cast<float>(kScale * in[i] + (keeps ? error[i] : 0));
        }
        const std::vector<double> want = plain_roundtrip(encoding, values);
        const Encoded got = encode_parts(fixture, encoding, {in}, error);
        for (std::size_t i = 0; i < in.size(); ++i) {
          // int8 may round the other way where a value lies between two.
          const double step = encoding.kind == Kind::int8 ? 1.01 * 1.25 / 127 : 0;
          const bool halfway = std::abs(got.decoded[i] - want[i]) > 1e-6;
          ASSERT_NEAR(got.decoded[i], want[i], halfway ? step : 1e-6) << i;
          if (halfway) {
            ASSERT_NEAR(std::abs(got.decoded[i] - values[i]), step / 2.02, 1e-3);
          }
          if (keeps) {
            ASSERT_NEAR(got.error[i], values[i] - got.decoded[i], 1e-6) << i;
          }
        }
      }
}

TEST(Encoding, SumsPartsInTheirOrderWithTheSameBitsForAnyTeam) {
  for (const Encoding& encoding : encoding_cases()) {
    if (encoding.is_cast()) continue;
    const std::vector<Values> parts = {random_values(40009, 3), random_values(40009, 4),
                                       random_values(40009, 5)};
    std::vector<double> want(parts[0].size());
    Encoded first;
    for (BackendFixture& fixture : all_backends()) {
      Encoded got = encode_parts(fixture, encoding, parts, Values(want.size()));
      if (first.bytes.empty()) first = got;
      EXPECT_EQ(got.bytes, first.bytes);
      EXPECT_TRUE(same_bits(got.decoded, first.decoded));
    }
    for (const Values& part : parts) {
      std::vector<double> scaled(part.size());
      for (std::size_t i = 0; i < part.size(); ++i) scaled[i] = kScale * part[i];
      const std::vector<double> one = plain_roundtrip(encoding, scaled);
      for (std::size_t i = 0; i < part.size(); ++i) want[i] += one[i];
    }
    const double tolerance = encoding.kind == Kind::int8 ? 3 * kScale / 127 : 1e-6;
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(first.decoded[i], want[i], tolerance);
  }
}

TEST(Encoding, TellsItsBytes) {
  EXPECT_EQ(Encoding{Kind::bf16}.bytes(1000), 2000u);
  EXPECT_EQ(Encoding{Kind::int8}.bytes(257), 2 * 4 + 257u);
  EXPECT_EQ((Encoding{Kind::largest, 41}.bytes(4096 + 200)), (41 + 3) * 6u);
}

TEST(Encoding, KeepsTheFirstOfEqualValues) {
  BackendFixture fixture = BackendFixture::onednn();
  const Values in = {1, -2, 2, 2, 0};
  const Encoded got = encode_parts(fixture, {Kind::largest, 1638}, {in}, Values(5));
  EXPECT_EQ(got.decoded, (Values{0, -0.5F, 0.5F, 0, 0}));
  EXPECT_EQ(got.error, (Values{0.25F, 0, 0, 0.5F, 0}));
}

// A loss that is not finite must show.
TEST(Encoding, LetsNoNumberPassThatIsNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (BackendFixture& fixture : all_backends())
    for (const Encoding& encoding : encoding_cases()) {
      const Values in = {1, nan, 2, 3};
      EXPECT_TRUE(std::isnan(encode_parts(fixture, encoding, {in}, Values(4)).decoded[1]));
    }
}

TEST(Orthonormalization, LeavesColumnsAtRightAngles) {
  for (BackendFixture& fixture : all_backends())
    for (const ThinMatrix& thin : thin_matrices()) {
      Values got = thin.values;
      std::vector<double> sums(thin.width);
      fixture.backend().orthonormalize(fixture.stream(),
                                       {got.data(), thin.rows, thin.width, sums.data()});
      expect_orthonormal(thin, got);
    }
}

}  // namespace
}  // namespace ddpbench::ops::testing
