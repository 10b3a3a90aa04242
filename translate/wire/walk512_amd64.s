#include "go_asm.h"
#include "textflag.h"

// PARITY sets each bit of mask to the parity of all bits up to it. X15 is all ones.
#define PARITY(mask) \
	VMOVQ      mask, X3        \
	VPCLMULQDQ $0, X15, X3, X3 \
	VMOVQ      X3, mask

#define BYTES(value, to) \
	MOVL         $value, AX \
	VPBROADCASTB AX, to

// AHEAD loads the block at the address in at, a register that it changes, and begins what takes longest: to find quotes and
// their parity, the classes of bytes, and the followers of the bytes before them.
#define AHEAD(at) \
	VMOVDQU64  (at), Z5         \
	VMOVDQU64  -1(at), Z6       \
	VPCMPEQB   Z22, Z5, K5      \
	KMOVQ      K5, at           \
	VMOVQ      at, X14          \
	VPCLMULQDQ $0, X15, X14, X14 \
	VMOVDQA64  Z5, Z29          \
	VPERMI2B   Z17, Z16, Z29    \
	VPERMI2B   Z19, Z18, Z6

// TAKE goes on with the block that AHEAD has loaded, which is at SI, and loads the next one, so that its results are there
// when they are needed. It also finds what is special.
#define TAKE \
	VMOVDQA64 Z5, Z0          \
	VMOVDQA64 Z6, Z1          \
	VMOVDQA64 Z29, Z2         \
	KMOVQ     K5, K4          \
	KMOVQ     K5, AX          \
	VMOVQ     X14, DX         \
	LEAQ      64(SI), CX      \
	CMPQ      CX, last-16(SP) \
	CMOVQHI   SI, CX          \
	AHEAD(CX)                 \
	VPCMPB    $1, Z20, Z0, K1 \ // as signed numbers, control characters and bytes beyond ASCII are less than a space
	VPCMPEQB  Z21, Z0, K2

// NAMES checks that names are strings and that colons are behind them. R15 has where names may begin, allowed what else may
// be there: closing brackets, of empty objects, and quotes.
#define NAMES(allowed) \
	ANDNQ    R15, allowed, CX \
	ORQ      CX, R13          \
	ANDQ     AX, R15          \
	NEGQ     R12              \ // the carry is set if it was not 0
	ADCQ     R15, R15         \
	SBBQ     R12, R12         \
	ADDQ     BX, R15          \ // carries through each name to what is behind its closing quote
	SBBQ     $0, R12          \
	VPTESTMB Z24, Z2, K6      \
	KMOVQ    K6, CX           \ // colons
	XORQ     R15, CX          \
	ANDNQ    CX, BX, CX       \
	ORQ      CX, R13

// NEXT finds the next bracket. The carry is set if it opens a container.
#define NEXT \
	TZCNTQ R14, AX \
	MOVQ   R9, R10 \
	BTQ    AX, DX

// TOGGLE toggles in CX what is behind a bracket, if the kind of container is another there.
#define TOGGLE \
	XORQ  R9, R10      \
	ADDQ  R10, R10     \
	ANDL  $2, R10      \
	NEGQ  R10          \
	SHLXQ AX, R10, R10 \
	XORQ  R10, CX      \
	BLSRQ R14, R14

// VISITED checks the kinds of closing brackets, and names. CX has the bytes that are in objects.
#define VISITED \
	ANDQ  CX, R15      \
	KMOVQ K7, R14      \
	ANDNQ R14, BX, R14 \
	ANDNQ R14, DX, R14 \ // closing brackets
	XORQ  CX, R11      \
	ANDQ  R14, R11     \
	ORQ   R11, R13     \ // of another kind than the container
	KMOVQ K4, AX       \
	ORQ   AX, R14      \
	NAMES(R14)

// LATER appends the bits of mask, of the block at SI, to the list of what the caller checks.
#define LATER(mask) \
	MOVQ SI, CX       \
	SUBQ p+8(FP), CX  \
	MOVQ CX, (DI)     \
	MOVQ mask, 8(DI)  \
	ADDQ $16, DI

// walkBlocks checks the grammar of a block while the masks are in registers: SI is the block, and bit i of a mask stands for its byte i.
//
//	R8   all bits if the block begins in a string
//	R9   walk.stack
//	R10  all bits if the innermost container is an object
//	R12  walk.name
//	DI   the end of walk.later
//	AX   quotes, also in K4
//	BX   what is behind a byte of a string, that is a string without its opening quote
//	R13  faults
//	R14  brackets, also in K7
//	R15  behind commas and {
//
// The schedulers of a processor hold hardly more than the instructions for one block. Those that wait for a mask would keep
// it from the next block, if masks were not begun one block ahead.
//
// func walkBlocks(w *walk, p *byte, n int) int
TEXT ·walkBlocks(SB), NOSPLIT, $40-32
	MOVQ    w+0(FP), DI
	MOVQ    p+8(FP), SI
	MOVQ    n+16(FP), CX
	SHLQ    $6, CX
	LEAQ    -64(SI)(CX*1), CX
	MOVQ    CX, last-16(SP)
	MOVQ    walk_text(DI), R8
	MOVQ    walk_stack(DI), R9
	MOVQ    R9, R10
	ANDL    $1, R10
	NEGQ    R10
	MOVQ    walk_name(DI), R12
	MOVQ    walk_escaped(DI), AX
	MOVQ    AX, escaped-24(SP)
	MOVQ    walk_beyond(DI), DX
	MOVQ    DX, beyond-32(SP)
	SHRQ    $61, DX
	XORL    BX, BX
	ORQ     DX, AX
	CMOVQNE BX, CX
	MOVQ    CX, limit-8(SP)
	LEAQ    walk_later+(16*const_mostLater)(DI), CX
	MOVQ    CX, full-40(SP)
	LEAQ    walk_later(DI), DI

	VPCMPEQB  X15, X15, X15
	VMOVDQU64 ·classes+0(SB), Z16
	VMOVDQU64 ·classes+64(SB), Z17
	VMOVDQU64 ·followers+0(SB), Z18
	VMOVDQU64 ·followers+64(SB), Z19
	BYTES(0x20, Z20)           // space
	BYTES(0x5C, Z21)           // backslash
	BYTES(0x22, Z22)           // quote
	BYTES(const_beginsName, Z23)
	BYTES(const_aColon, Z24)
	BYTES(const_anOpen, Z25)
	BYTES(const_aBracket, Z26)
	BYTES(const_aScalar, Z27)
	BYTES(const_beginsValue, Z28)

load:
	MOVQ SI, CX
	AHEAD(CX)

block:
	CMPQ     SI, limit-8(SP)
	JA       past
	TAKE
	KORTESTQ K1, K2
	JNE      special

plain: // AX has the quotes, DX their parity
	TESTQ AX, AX
	JZ    unquoted
	XORQ  R8, DX           // in a string, from its opening quote to before its closing one
	LEAQ  (DX)(DX*1), BX
	SUBQ  R8, BX           // behind these: from behind the opening quote to the closing one
	MOVQ  DX, R8
	SARQ  $63, R8

	// All that is not a quote is outside of strings if it is not in BX.
outside:
	VPTESTNMB Z1, Z2, K3
	KMOVQ     K3, R13
	ANDNQ     R13, BX, R13 // faults: may not follow the byte before
	VPTESTMB  Z27, Z2, K1
	VPTESTMB  Z28, Z1, K1, K2
	KMOVQ     K2, R14
	ANDNQ     R14, BX, R14 // where scalars begin
	TESTQ     R14, R14
	JNZ       scalars

scalarsKept:
	VPTESTMB Z23, Z1, K3
	KMOVQ    K3, R15
	ANDNQ    R15, BX, R15  // behind commas and {
	VPTESTMB Z26, Z2, K7
	KMOVQ    K7, R14
	ANDNQ    R14, BX, R14
	TESTQ    R14, R14
	JNZ      brackets
	ANDQ     R10, R15
	NAMES(AX)
	TESTQ    R13, R13
	JNZ      leave
	ADDQ     $64, SI
	JMP      block

unquoted:
	TESTQ R8, R8
	JNZ   inside
	XORL  BX, BX
	JMP   outside

scalars:
	LATER(R14)
	CMPQ DI, full-40(SP)
	JB   scalarsKept
	MOVQ SI, last-16(SP)
	MOVQ $0, limit-8(SP)
	JMP  scalarsKept

brackets:
	VPTESTMB Z25, Z2, K1
	KMOVQ    K1, DX        // opening brackets, and in strings
	VPTESTMB Z20, Z0, K2
	KMOVQ    K2, R11       // bit 5, which { and } have and [ and ] have not

	// If there are only { and }, and fewer } than objects on top of the stack, they need not be visited: the innermost
	// container is an object everywhere.
	MOVQ   R9, CX
	SHRQ   $32, CX
	JNZ    visit
	ANDNQ  R14, R11, CX
	JNZ    visit
	ANDNQ   DX, BX, DX
	POPCNTQ R14, CX
	POPCNTQ DX, DX
	SUBQ    DX, CX          // how many }
	MOVQ    R9, R11
	NOTQ    R11
	TZCNTQ  R11, R11
	CMPQ    CX, R11
	JGE     revisit
	INCQ    R9
	SHLXQ   DX, R9, R9
	SHRXQ   CX, R9, R9
	DECQ    R9
	KMOVQ   K1, CX
	ANDNQ   R14, CX, R14    // closing brackets
	ORQ     AX, R14
	NAMES(R14)
	TESTQ   R13, R13
	JNZ     leave
	ADDQ    $64, SI
	JMP     block

revisit:
	KMOVQ K1, DX

visit:
	KMOVQ K2, R11
	MOVQ  R10, CX           // in objects
	NEXT
	JCC   shut

open:
	BTQ  AX, R11
	ADCQ R9, R9
	JCS  leave
	TOGGLE
	JZ   visited
	NEXT
	JCS  open

shut:
	SHRQ $1, R9
	CMPQ R9, $const_noContainer
	JEQ  end
	TOGGLE
	JZ   visited
	NEXT
	JCC  shut
	JMP  open

visited:
	VISITED
	TESTQ R13, R13
	JNZ   leave
	MOVQ  R9, R10
	ANDL  $1, R10
	NEGQ  R10
	ADDQ  $64, SI
	JMP   block

end:
	BLSMSKQ R14, R9        // all up to the end
	LEAQ    1(SI)(AX*1), R10
	SUBQ    p+8(FP), R10
	VISITED
	ANDQ    R9, R13
	JNZ     leave
	MOVQ    R10, ret+24(FP)
	MOVQ    w+0(FP), BX
	MOVQ    $const_noContainer, walk_stack(BX)
	JMP     return

inside: // a string, with the whole block
	ADDQ      $64, SI
	CMPQ      SI, limit-8(SP)
	JA        past
	VMOVDQU64 (SI), Z0
	VPCMPB    $1, Z20, Z0, K1
	VPCMPEQB  Z21, Z0, K2
	VPCMPEQB  Z22, Z0, K4
	KORQ      K1, K2, K1
	KORTESTQ  K1, K4
	JEQ       inside
	JMP       load

past: // the limit, which is 0 if a character or an escape goes on in the next block
	MOVQ last-16(SP), AX
	CMPQ SI, AX
	JA   done
	MOVQ AX, limit-8(SP)
	MOVQ SI, CX
	AHEAD(CX)
	TAKE

special: // control characters, backslashes and bytes beyond ASCII, here or at the end of the block before
	VPMOVB2M   Z0, K3
	KNOTQ      K3, K6
	VMOVDQU8.Z Z2, K6, Z2     // which have no class
	KMOVQ      K3, AX
	KMOVQ      K1, R13
	ANDNQ      R13, AX, R13
	TESTQ      R13, R13       // control characters
	JNZ        leave
	MOVQ       beyond-32(SP), BX
	MOVQ       AX, beyond-32(SP)
	ORQ        AX, BX
	JZ         ascii
	SHRQ       $61, AX
	JZ         whole
	MOVQ       $0, limit-8(SP)

whole: // Well-formed UTF-8, as in FAULTS.
	VBROADCASTI32X4 ·firstHigh(SB), Z10
	VBROADCASTI32X4 ·firstLow(SB), Z11
	VBROADCASTI32X4 ·secondHigh(SB), Z12
	BYTES(0x0F, Z13)
	BYTES(0x60, Z30)
	BYTES(0x70, Z31)
	BYTES(0x80, Z4)
	VMOVDQU64 -1(SI), Z8
	VPSRLW    $4, Z8, Z9
	VPANDQ    Z13, Z9, Z9
	VPSHUFB   Z9, Z10, Z9
	VPANDQ    Z13, Z8, Z8
	VPSHUFB   Z8, Z11, Z8
	VPANDQ    Z8, Z9, Z9
	VPSRLW    $4, Z0, Z8
	VPANDQ    Z13, Z8, Z8
	VPSHUFB   Z8, Z12, Z8
	VPANDQ    Z8, Z9, Z9
	VMOVDQU64 -2(SI), Z8
	VPSUBUSB  Z30, Z8, Z8
	VMOVDQU64 -3(SI), Z7
	VPSUBUSB  Z31, Z7, Z7
	VPORQ     Z8, Z7, Z7
	VPANDQ    Z4, Z7, Z7
	VPXORQ    Z9, Z7, Z7
	VPTESTMB  Z7, Z7, K3
	KORTESTQ  K3, K3
	JNE       leave

ascii:
	KMOVQ K2, AX              // backslashes
	MOVQ  escaped-24(SP), BX
	MOVQ  AX, CX
	ORQ   BX, CX
	JZ    quotes

	// As in textBlocks, but the first byte may be escaped.
	ANDNQ     AX, BX, R14
	LEAQ      (R14)(R14*1), R15
	MOVQ      $0xAAAAAAAAAAAAAAAA, CX
	ORQ       CX, R15
	SUBQ      R14, R15
	XORQ      CX, R15
	MOVQ      AX, R14
	ORQ       BX, R14
	XORQ      R15, R14        // escaped bytes
	ANDQ      AX, R15
	SHRQ      $63, R15
	MOVQ      R15, escaped-24(SP)
	JZ        unescaped
	MOVQ      $0, limit-8(SP)

unescaped:
	KMOVQ     K4, AX
	ANDNQ     AX, R14, AX
	KMOVQ     AX, K4
	VMOVDQA64 Z0, Z3
	VMOVDQU64 ·escapable+0(SB), Z4
	VPERMI2B.Z ·escapable+64(SB), Z4, K6, Z3
	VPTESTNMB Z3, Z3, K3
	KMOVQ     K3, R15
	ANDQ      R14, R15        // that are u or a fault
	JZ        quotes
	LATER(R15)
	CMPQ      DI, full-40(SP)
	JB        quotes
	MOVQ      SI, last-16(SP)
	MOVQ      $0, limit-8(SP)

quotes:
	KMOVQ K4, AX
	MOVQ  AX, DX
	PARITY(DX)
	JMP   plain

leave:
	MOVQ $-1, ret+24(FP)
	VZEROUPPER
	RET

done:
	SUBQ p+8(FP), SI
	MOVQ SI, ret+24(FP)
	MOVQ w+0(FP), BX
	MOVQ R8, walk_text(BX)
	MOVQ R9, walk_stack(BX)
	MOVQ R12, walk_name(BX)
	MOVQ escaped-24(SP), AX
	MOVQ AX, walk_escaped(BX)
	MOVQ beyond-32(SP), AX
	MOVQ AX, walk_beyond(BX)

return:
	LEAQ walk_later(BX), AX
	SUBQ AX, DI
	SHRQ $4, DI
	MOVQ DI, walk_laters(BX)
	VZEROUPPER
	RET
