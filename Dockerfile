# The command line alone, without a shell, as a user without rights (infra/Dockerfile has the function app):
#   docker build --build-arg VERSION=v1.2.3 --tag tablesweep .
#   docker run --rm --env AzureWebJobsStorage tablesweep count --table orders
#   docker run --rm --env AzureWebJobsStorage --volume "$PWD:/work" --user "$(id -u)" tablesweep export --from orders --to ./orders
# Both images go by digest. Never built: no container engine was at hand. Its steps were run by hand, and the program in a chroot.
FROM --platform=$BUILDPLATFORM golang:1.26.8@sha256:3c3e25a4da13fd0478eed2df1eb35a0e667094a7124d3993a6a1d30f71c17e79 AS build
ARG TARGETARCH=amd64
ARG VERSION
WORKDIR /src
COPY . .
RUN scripts/notices.sh linux/$TARGETARCH && OUT=/out/usr/bin/tablesweep scripts/build.sh linux/$TARGETARCH

FROM gcr.io/distroless/static-debian13:nonroot@sha256:e2e927ec666bae08560abb3c55d0659eceabb657f56b6782ab500a9fc7f555e3
COPY --from=build /out /
WORKDIR /work
ENTRYPOINT ["/usr/bin/tablesweep"]
CMD ["--help"]
