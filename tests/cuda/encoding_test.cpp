// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Encodings of the CUDA backend against the reference's.
#include "tests/cuda/cuda_fixture.h"
#include "tests/ops/encoding_cases.h"

namespace ddpbench::ops::testing {
namespace {

using CudaEncoding = CudaOps;

TEST_F(CudaEncoding, EqualsTheReference) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  for (const Encoding& encoding : encoding_cases())
    for (const std::int64_t count : kEncodedCounts) {
      SCOPED_TRACE(count);
      const auto size = static_cast<std::size_t>(count);
      const Values in = random_values(count, 1), before = random_values(count, 2);
      Values error = before, want(size);
      std::vector<std::byte> bytes(encoding.bytes(size));
      EncodeArgs to{.encoding = encoding, .in = in.data(), .count = size, .scale = 0.5F};
      to.error = error.data(), to.out = bytes.data();
      DecodeArgs from{.encoding = encoding, .in = bytes.data(), .out = want.data(), .count = size};
      plain.backend().encode(plain.stream(), to);
      plain.backend().decode(plain.stream(), from);

      const OpMemory there = fixture.upload(in), errors = fixture.upload(before);
      const OpMemory encoded = fixture.allocate(bytes.size());
      const OpMemory decoded = fixture.allocate(size * sizeof(float));
      to.in = reinterpret_cast<const float*>(there.data());
      to.error = reinterpret_cast<float*>(errors.data()), to.out = encoded.data();
      from.in = encoded.data(), from.out = reinterpret_cast<float*>(decoded.data());
      fixture.backend().encode(fixture.stream(), to);
      fixture.backend().decode(fixture.stream(), from);
      // A GPU multiplies and adds in one rounding, so that int8 may round the other way.
      const double tolerance = encoding.kind == Encoding::Kind::int8 ? 1.5 / 127 : 1e-6;
      EXPECT_TRUE(all_near(fixture.download<float>(decoded), want, tolerance));
      if (!encoding.is_cast()) {
        const Values lost = fixture.download<float>(errors), got = fixture.download<float>(decoded);
        for (std::size_t i = 0; i < size; ++i) {
          ASSERT_NEAR(lost[i] + got[i], 0.5F * in[i] + before[i], 1e-6) << i;
        }
      }
    }
}

TEST_F(CudaEncoding, LeavesColumnsAtRightAngles) {
  BackendFixture fixture = cuda_backend();
  for (const ThinMatrix& thin : thin_matrices()) {
    const OpMemory matrix = fixture.upload(thin.values);
    const OpMemory sums = fixture.allocate(thin.width * sizeof(double));
    fixture.backend().orthonormalize(
        fixture.stream(), {reinterpret_cast<float*>(matrix.data()), thin.rows, thin.width,
                           reinterpret_cast<double*>(sums.data())});
    expect_orthonormal(thin, fixture.download<float>(matrix));
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
