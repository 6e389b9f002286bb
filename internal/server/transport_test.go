package server

import (
	"runtime"
	"testing"
)

// eachTransport runs a test over every transport that this machine has.
func eachTransport(t *testing.T, test func(t *testing.T)) {
	for _, io := range []string{IOStd, IOEpoll, IOUring} {
		t.Run(io, func(t *testing.T) {
			needs(t, io)
			was := underTest
			underTest = io
			defer func() { underTest = was }()
			test(t)
		})
	}
}

// needs skips a test if the machine does not have the transport.
func needs(t *testing.T, io string) {
	t.Helper()
	if io == IOStd {
		return
	}
	s, err := New(Options{Addr: "127.0.0.1:0", Handler: newFakeNode(), IO: io, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	switch err := s.Start(); {
	case err == nil:
	case io == IOEpoll && runtime.GOOS == "linux":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// Whatever is tested over TCP holds for loops as well.
func TestLoops(t *testing.T) {
	suite := []struct {
		name string
		test func(*testing.T)
	}{
		{"PipelineInPieces", TestPipelineInPieces},
		{"TooLargeValueLeavesTheSessionUsable", TestTooLargeValueLeavesTheSessionUsable},
		{"AskingLastsForOneCommand", TestAskingLastsForOneCommand},
		{"ReadOnly", TestReadOnly},
		{"ContainersReachTheHandlerAsSubcommands", TestContainersReachTheHandlerAsSubcommands},
		{"InternalCommandsAreForPeers", TestInternalCommandsAreForPeers},
		{"PeersMaySendMore", TestPeersMaySendMore},
		{"PanicEndsOnlyItsSession", TestPanicEndsOnlyItsSession},
		{"HandlerWithoutReply", TestHandlerWithoutReply},
		{"Stats", TestStats},
		{"ConcurrentInspection", TestConcurrentInspection},
		{"CVE202521605OutputBeforeAuthentication", TestCVE202521605OutputBeforeAuthentication},
		{"CVE202132675HeadersReserveNothing", TestCVE202132675HeadersReserveNothing},
		{"CVE202546686AnnouncedArgumentsReserveNothing", TestCVE202546686AnnouncedArgumentsReserveNothing},
		{"CVE202627623EmptyRequests", TestCVE202627623EmptyRequests},
		{"CVE202567733ReplyInjection", TestCVE202567733ReplyInjection},
		{"MaxClients", TestMaxClients},
		{"PeerReserve", TestPeerReserve},
		{"ClientList", TestClientList},
		{"ClientSetInfo", TestClientSetInfo},
		{"ClientKill", TestClientKill},
		{"ClientKillWhileExecuting", TestClientKillWhileExecuting},
		{"CommandTable", TestCommandTable},
		{"CommandDocsOfManyNamesIsBounded", TestCommandDocsOfManyNamesIsBounded},
		{"RepliesAsRedis", TestRepliesAsRedis},
		{"AuthenticationAsRedis", TestAuthenticationAsRedis},
		{"Drain", TestDrain},
		{"CloseCutsSessionsOff", TestCloseCutsSessionsOff},
		{"LongPipelineIsReadBeforeItsReplies", TestLongPipelineIsReadBeforeItsReplies},
		{"ManyUnfinishedCommandsAreBoundedTogether", TestManyUnfinishedCommandsAreBoundedTogether},
		{"BufferBudgetReturnsToZero", TestBufferBudgetReturnsToZero},
		{"UnskippableCommandEndsTheSession", TestUnskippableCommandEndsTheSession},
		{"PeersAreCountedButNotRefused", TestPeersAreCountedButNotRefused},
		{"TransactionQueue", TestTransactionQueue},
		{"TransactionNeedsATransactor", TestTransactionNeedsATransactor},
		{"TransactionIsBounded", TestTransactionIsBounded},
	}
	for _, io := range []string{IOEpoll, IOUring} {
		t.Run(io, func(t *testing.T) {
			needs(t, io)
			underTest = io
			defer func() { underTest = "" }()
			for _, tt := range suite {
				t.Run(tt.name, tt.test)
			}
		})
	}
}
