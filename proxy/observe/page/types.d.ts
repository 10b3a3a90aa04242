// The messages between dragoman and the page. This file is for editors and tsc, which know its types everywhere; browsers never load it.

interface Times { client: number; proxy: number; server: number }
interface Sizes { before: number; after: number }
interface Loss { rule: string; what: string; count: number; changed?: number; example?: number; does?: string }
interface Row {
  n: number; at: string; kind: string; method?: string; tool?: string; subject?: string; id?: string;
  session?: string; client?: string; client_rev?: string; server?: string; server_rev?: string; transport?: string;
  status: string; error?: string; code?: number; cause?: string; ms?: Times; bytes?: Sizes; tokens?: Sizes;
  rules?: string[]; losses?: Loss[]; changed?: Loss[]; by?: string[]; messages?: number;
}
interface Session {
  session: string; principal?: string; client?: string; client_rev?: string; server?: string; server_rev?: string;
  transport?: string; era?: string; since?: string; ended?: string; why?: string; calls: number; open?: number; streams?: number; asking?: number;
  errors?: number; p95_ms?: number; rules?: string[];
}
interface Hello { version: string; replica?: string; started: string; now: string; last?: number; first?: number; payloads?: string; file?: string; url?: string }
interface Stats {
  connections?: number; calls?: number; errors_per_min?: number; watchers?: number; dropped?: number;
  ring?: { rows: number; bytes: number }; sessions: Session[];
}
interface State extends Stats {
  ended: Session[];
  parked: { method: string; session?: string; client?: string; server?: string; tool?: string; since: string; ends?: string; call?: number }[];
  replicas: { address: string; reachable?: boolean; forwarded?: number }[]; losses: Loss[];
}
interface Words { what?: string; since?: string; does: string }
interface Change { rule: string; what: string; change: string; before?: string; after?: string; does?: string }
interface Message {
  seq: number; at: string; ms: number; edge: 'client' | 'server'; direction: string; kind: string; method?: string; id?: string; rev?: string;
  size?: number; sha256?: string; cut?: boolean; payload?: unknown; text?: string; headers?: Record<string, string>;
  pair?: number; same?: boolean; changes?: Change[]; more_changes?: number; unexplained?: number; verdict?: string; failure?: string;
}
interface Note { at: string; ms: number; by: string; what?: string; path?: string; detail?: string }
interface Call { row: Row; messages: Message[]; notes?: Note[]; curl?: string; golden?: string; more?: number; short?: boolean }

/** Where the page stands with dragoman. */
type Link = { is: 'opening' | 'live' | 'token' | 'forbidden' | 'hidden' } | { is: 'lost' | 'busy'; at: number };

/** What a filter chooses of the calls that changed since the version of dragoman's rows that was asked for. */
interface Found { fit: number[]; not: number[]; until: number }

/**
 * One line of a comparison. l and r are in pieces, of which every second one is not in the other one; the side that does not
 * have the line is missing. Outside of an edit the right side is as the left one.
 */
interface Line { depth: number; key?: string; kind?: string; l?: string[]; r?: string[]; edit?: boolean; why?: string[] }
interface Comparison { two?: boolean; lines: Line[]; more?: number; differences: number; unexplained: number }
